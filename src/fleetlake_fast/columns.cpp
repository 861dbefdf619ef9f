#include "columns.hpp"

namespace fleetlake {
namespace {

constexpr size_t kAlignment = 64;  // as the Arrow format recommends

size_t padded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// What the array's `release` frees. The children's own structures are inside.
struct Block {
  std::unique_ptr<char, decltype(&std::free)> memory{nullptr, &std::free};
  std::vector<const void*> buffers;
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> listed;
  const void* none[1] = {nullptr};
};

// A consumer may move a child out and release it later than its parent: each holds the block.
using Holder = std::shared_ptr<Block>;

void release(ArrowArray* array) {
  auto* holder = static_cast<Holder*>(array->private_data);
  for (int64_t at = 0; at < array->n_children; ++at)
    if (array->children[at]->release) array->children[at]->release(array->children[at]);
  array->release = nullptr;
  delete holder;
}

}  // namespace

ArrowArray* array_of(const std::vector<Column>& columns) {
  auto block = std::make_shared<Block>();
  size_t bytes = kAlignment;
  for (const auto& column : columns)
    bytes += padded(column.validity_bytes()) + padded(column.offset_bytes()) +
             padded(column.content_bytes());
  block->memory.reset(static_cast<char*>(std::aligned_alloc(kAlignment, bytes)));
  if (!block->memory) throw std::bad_alloc();
  char* at = block->memory.get();
  const auto place = [&](size_t size) {
    char* const start = at;
    at += padded(size);
    return start;
  };
  block->buffers.resize(columns.size() * 3);
  block->children.resize(columns.size());
  const auto rows = static_cast<int64_t>(columns.empty() ? 0 : columns.front().rows());
  for (size_t index = 0; index < columns.size(); ++index) {
    const auto& column = columns[index];
    const void** buffers = &block->buffers[index * 3];
    int64_t count = 1;
    if (column.nulls()) {
      char* const validity = place(column.validity_bytes());
      column.write_validity(validity);
      buffers[0] = validity;
    }
    if (column.is_text()) {
      char* const offsets = place(column.offset_bytes());
      column.write_offsets(offsets);
      buffers[count++] = offsets;
    }
    char* const content = place(column.content_bytes());
    column.write_content(content);
    buffers[count++] = content;
    block->children[index] = {rows,    column.nulls(), 0,       count,   0,
                              buffers, nullptr,        nullptr, nullptr, nullptr};
    block->listed.push_back(&block->children[index]);
  }
  auto array = std::make_unique<ArrowArray>();
  auto holder = std::make_unique<Holder>(block);
  for (auto& child : block->children) {
    child.private_data = new Holder(block);
    child.release = &release;
  }
  *array = {rows,
            0,
            0,
            1,
            static_cast<int64_t>(columns.size()),
            block->none,
            block->listed.data(),
            nullptr,
            &release,
            holder.release()};
  return array.release();
}

}  // namespace fleetlake
