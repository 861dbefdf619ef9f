// The Python module `fleetlake_fast`: one class, over CPython's stable interface.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstring>
#include <memory>
#include <new>

#include "page_reader.hpp"

namespace {

using fleetlake::Kind;
using fleetlake::PageReader;
using fleetlake::Path;

constexpr const char* kCapsule = "arrow_array";

struct ReaderObject {
  PyObject_HEAD
  PageReader* reader;
  bool is_busy;
};

void release_capsule(PyObject* capsule) {
  auto* array = static_cast<ArrowArray*>(PyCapsule_GetPointer(capsule, kCapsule));
  if (array->release) array->release(array);
  delete array;
}

// Appends the texts of a tuple of str. Returns false with an exception.
bool path_of(PyObject* names, Path& path) {
  const Py_ssize_t count = PyTuple_Size(names);
  for (Py_ssize_t at = 0; at < count; ++at) {
    Py_ssize_t size;
    const char* text = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, at), &size);
    if (!text) return false;
    path.emplace_back(text, static_cast<size_t>(size));
  }
  return count >= 0;
}

bool refuse_plan() {
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no plan can hold these members");
  return false;
}

template <typename Add>
bool each(PyObject* members, Add add) {
  const Py_ssize_t count = PyTuple_Size(members);
  for (Py_ssize_t at = 0; at < count; ++at)
    if (!add(PyTuple_GetItem(members, at))) return refuse_plan();
  return count >= 0;
}

bool plan(PageReader& reader, PyObject* columns, PyObject* constants, PyObject* learned) {
  const auto add_column = [&](PyObject* column) {
    PyObject* names;
    int kind, is_required;
    Path path;
    return PyArg_ParseTuple(column, "O!ip", &PyTuple_Type, &names, &kind, &is_required) &&
           kind >= 0 && kind <= static_cast<int>(Kind::json) && path_of(names, path) &&
           reader.add_column(path, static_cast<Kind>(kind), is_required != 0);
  };
  const auto add_constant = [&](PyObject* names) {
    Path path;
    return path_of(names, path) && reader.add_constant(path);
  };
  const auto add_learned = [&](PyObject* names) {
    Path path;
    return path_of(names, path) && reader.add_learned(path);
  };
  return each(columns, add_column) && each(constants, add_constant) && each(learned, add_learned);
}

PyObject* reader_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  static const char* names[] = {"is_v2", "columns", "constants", "learned", nullptr};
  int is_v2;
  PyObject *columns, *constants, *learned;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "pO!O!O!", const_cast<char**>(names),
                                   &is_v2, &PyTuple_Type, &columns, &PyTuple_Type, &constants,
                                   &PyTuple_Type, &learned))
    return nullptr;
  auto* alloc = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  auto* self = reinterpret_cast<ReaderObject*>(alloc(type, 0));
  if (!self) return nullptr;
  try {
    self->reader = new PageReader(is_v2 != 0);
    if (plan(*self->reader, columns, constants, learned)) {
      self->reader->finish();
      return reinterpret_cast<PyObject*>(self);
    }
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  Py_DECREF(self);
  return nullptr;
}

void reader_free(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<ReaderObject*>(self)->reader;
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyObject* reader_read(PyObject* object, PyObject* body) {
  auto* self = reinterpret_cast<ReaderObject*>(object);
  char* text;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(body, &text, &size) < 0) return nullptr;
  if (self->is_busy) Py_RETURN_NONE;  // another thread is inside: its columns are in use
  fleetlake::Paging paging;
  ArrowArray* array = nullptr;
  bool has_memory = true;
  self->is_busy = true;
  Py_BEGIN_ALLOW_THREADS
  try {
#ifdef __SANITIZE_ADDRESS__
    // Python puts a byte behind each text, which would hide a read past the end.
    const std::unique_ptr<char[]> exact(new char[static_cast<size_t>(size)]);
    std::memcpy(exact.get(), text, static_cast<size_t>(size));
    text = exact.get();
#endif
    if (self->reader->read({text, static_cast<size_t>(size)}, paging))
      array = fleetlake::array_of(self->reader->columns());
  } catch (const std::bad_alloc&) {
    has_memory = false;
  }
  Py_END_ALLOW_THREADS
  self->is_busy = false;
  if (!has_memory) return PyErr_NoMemory();
  if (!array) Py_RETURN_NONE;
  PyObject* capsule = PyCapsule_New(array, kCapsule, &release_capsule);
  if (!capsule) {
    array->release(array);
    delete array;
    return nullptr;
  }
  return Py_BuildValue("NKLLz#", capsule, static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(array)),
                       static_cast<long long>(paging.count), static_cast<long long>(paging.limit),
                       paging.has_next ? (paging.next.empty() ? "" : paging.next.data()) : nullptr,
                       static_cast<Py_ssize_t>(paging.next.size()));
}

PyMethodDef kMethods[] = {{"read", &reader_read, METH_O, nullptr}, {}};

PyType_Slot kSlots[] = {{Py_tp_new, reinterpret_cast<void*>(&reader_new)},
                        {Py_tp_dealloc, reinterpret_cast<void*>(&reader_free)},
                        {Py_tp_methods, kMethods},
                        {0, nullptr}};

PyType_Spec kReader = {"fleetlake_fast.Reader", sizeof(ReaderObject), 0, Py_TPFLAGS_DEFAULT, kSlots};

PyModuleDef kModule = {PyModuleDef_HEAD_INIT, "fleetlake_fast", nullptr, -1,
                       nullptr,               nullptr,          nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_fleetlake_fast() {
  PyObject* module = PyModule_Create(&kModule);
  if (!module) return nullptr;
  PyObject* type = PyType_FromSpec(&kReader);
  if (!type || PyModule_AddObjectRef(module, "Reader", type) < 0 ||
      PyModule_AddStringConstant(module, "VERSION", FLEETLAKE_FAST_VERSION) < 0) {
    Py_XDECREF(type);
    Py_DECREF(module);
    return nullptr;
  }
  Py_DECREF(type);
  return module;
}
