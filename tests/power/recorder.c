/* Records what processes do to the files below ROOT, in order, with all data.
 *
 * Loaded with LD_PRELOAD; ROOT and LOG are compiled in, because a child process gets only some of
 * its parent's variables. Each record is appended to LOG in one write: a header of fixed size, two
 * paths and the data (tests/power/disk.py reads them). Two locks, one in the process and one on
 * LOG, make the order of the records the order of the operations. Writes through a memory map are
 * not seen; SQLite's index of its write-ahead log is the only such file, and SQLite builds it anew.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAX_FD = 65536 };
struct header {
    uint8_t op, pad[3];
    int32_t pid, fd;
    uint32_t path, other, data;
    int64_t offset;
} __attribute__((packed));

static unsigned char followed[MAX_FD];
static int log_fd = -1, depth;
static const char root[] = ROOT;
enum { root_length = sizeof root - 1 };
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

#define REAL(type, name, ...)                                     \
    static type (*real)(__VA_ARGS__);                             \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static void begin(void) {
    int saved = errno;
    pthread_mutex_lock(&lock);
    if (depth++ == 0 && log_fd >= 0) flock(log_fd, LOCK_EX);
    errno = saved;
}
static void end(void) {
    int saved = errno;
    if (--depth == 0 && log_fd >= 0) flock(log_fd, LOCK_UN);
    pthread_mutex_unlock(&lock);
    errno = saved;
}

__attribute__((constructor)) static void start(void) {
    REAL(int, "open64", const char *, int, ...);
    int fd = real(LOG, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    log_fd = fcntl(fd, F_DUPFD_CLOEXEC, MAX_FD / 2);
    if (log_fd < 0) log_fd = fd;
}

static void note(char op, int fd, const char *path, const char *other, const void *data,
                 size_t size, int64_t offset) {
    if (log_fd < 0) return;
    struct header h = {.op = (uint8_t)op, .pid = getpid(), .fd = fd, .offset = offset};
    h.path = path ? strlen(path) : 0;
    h.other = other ? strlen(other) : 0;
    h.data = (uint32_t)size;
    struct iovec parts[] = {{&h, sizeof h}, {(void *)path, h.path}, {(void *)other, h.other},
                            {(void *)data, size}};
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    int saved = errno;
    if (real(log_fd, parts, 4) != (ssize_t)(sizeof h + h.path + h.other + size)) abort();
    errno = saved;
}

/* Return whether a path is below the root; write the absolute path to `out`. */
static int below(int at, const char *path, char *out) {
    if (!path) return 0;
    if (path[0] == '/') {
        snprintf(out, PATH_MAX, "%s", path);
    } else {
        char folder[PATH_MAX] = "";
        if (at == AT_FDCWD) {
            if (!getcwd(folder, sizeof folder)) return 0;
        } else {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", at);
            ssize_t n = readlink(link, folder, sizeof folder - 1);
            if (n < 0) return 0;
            folder[n] = 0;
        }
        if (snprintf(out, PATH_MAX, "%s/%s", folder, path) >= PATH_MAX) return 0;
    }
    return strncmp(out, root, root_length) == 0 &&
           (out[root_length] == '/' || out[root_length] == 0);
}

static int is_followed(int fd) { return fd >= 0 && fd < MAX_FD && followed[fd]; }

static int opened(int fd, const char *path, int flags, int was_there) {
    if (fd < 0 || fd >= MAX_FD) return fd;
    followed[fd] = 1;
    note(was_there ? 'o' : 'c', fd, path, NULL, NULL, 0, 0);
    if (was_there && (flags & O_TRUNC)) note('t', fd, NULL, NULL, NULL, 0, 0);
    return fd;
}

static int open_at(int at, const char *path, int flags, mode_t mode) {
    REAL(int, "openat64", int, const char *, int, ...);
    char full[PATH_MAX];
    if (!below(at, path, full)) return real(at, path, flags, mode);
    begin();
    int was_there = faccessat(at, path, F_OK, 0) == 0;
    int fd = real(at, path, flags, mode);
    opened(fd, full, flags, was_there);
    end();
    return fd;
}

#define MODE                                            \
    mode_t mode = 0;                                    \
    if (flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) { \
        va_list rest;                                   \
        va_start(rest, flags);                          \
        mode = va_arg(rest, mode_t);                    \
        va_end(rest);                                   \
    }
int open(const char *path, int flags, ...) { MODE return open_at(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return open_at(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE return open_at(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) {
    MODE return open_at(at, path, flags, mode);
}
int __open_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
int __openat_2(int at, const char *path, int flags) { return open_at(at, path, flags, 0); }
int __openat64_2(int at, const char *path, int flags) { return open_at(at, path, flags, 0); }
int creat(const char *path, mode_t mode) {
    return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int close(int fd) {
    REAL(int, "close", int);
    begin();
    if (is_followed(fd)) {
        followed[fd] = 0;
        note('x', fd, NULL, NULL, NULL, 0, 0);
    }
    int done = real(fd);
    end();
    return done;
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    if (!is_followed(fd)) return real(fd, data, size);
    begin();
    ssize_t n = real(fd, data, size);
    if (n > 0) note('w', fd, NULL, NULL, data, n, lseek(fd, 0, SEEK_CUR) - n);
    end();
    return n;
}

static ssize_t write_at(int fd, const void *data, size_t size, off_t offset) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off_t);
    if (!is_followed(fd)) return real(fd, data, size, offset);
    begin();
    ssize_t n = real(fd, data, size, offset);
    if (n > 0) note('w', fd, NULL, NULL, data, n, offset);
    end();
    return n;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    return write_at(fd, data, size, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset) {
    return write_at(fd, data, size, offset);
}

/* Rare ways to write are sent through write(), so that they are recorded. */
ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    if (!is_followed(fd)) return real(fd, parts, count);
    ssize_t total = 0;
    begin();
    for (int i = 0; i < count; i++) {
        if (!parts[i].iov_len) continue;
        ssize_t n = write(fd, parts[i].iov_base, parts[i].iov_len);
        if (n < 0) {
            total = total ? total : -1;
            break;
        }
        total += n;
    }
    end();
    return total;
}
ssize_t sendfile(int to, int from, off_t *offset, size_t size) {
    REAL(ssize_t, "sendfile64", int, int, off_t *, size_t);
    if (is_followed(to)) {
        errno = EINVAL;
        return -1;
    }
    return real(to, from, offset, size);
}
ssize_t sendfile64(int to, int from, off_t *offset, size_t size) {
    return sendfile(to, from, offset, size);
}
ssize_t copy_file_range(int from, off_t *in, int to, off_t *out, size_t size, unsigned flags) {
    REAL(ssize_t, "copy_file_range", int, off_t *, int, off_t *, size_t, unsigned);
    if (is_followed(to)) {
        errno = ENOSYS;
        return -1;
    }
    return real(from, in, to, out, size, flags);
}

static int cut(int fd, off_t length) {
    REAL(int, "ftruncate64", int, off_t);
    begin();
    int done = real(fd, length);
    if (!done && is_followed(fd)) note('t', fd, NULL, NULL, NULL, 0, length);
    end();
    return done;
}
int ftruncate(int fd, off_t length) { return cut(fd, length); }
int ftruncate64(int fd, off_t length) { return cut(fd, length); }
int fallocate(int fd, int mode, off_t offset, off_t length) {
    REAL(int, "fallocate64", int, int, off_t, off_t);
    if (is_followed(fd)) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return real(fd, mode, offset, length);
}
int posix_fallocate(int fd, off_t offset, off_t length) {
    REAL(int, "posix_fallocate64", int, off_t, off_t);
    return is_followed(fd) ? EOPNOTSUPP : real(fd, offset, length);
}

#define SYNC(name)                                              \
    int name(int fd) {                                          \
        REAL(int, #name, int);                                  \
        begin();                                                \
        int done = 0;                                           \
        if (is_followed(fd))                                    \
            note('f', fd, NULL, NULL, NULL, 0, 0);              \
        else                                                    \
            done = real(fd);                                    \
        end();                                                  \
        return done;                                            \
    }
SYNC(fsync)
SYNC(fdatasync)
int syncfs(int fd) {
    begin();
    note('s', fd, NULL, NULL, NULL, 0, 0);
    end();
    return 0;
}
void sync(void) { syncfs(-1); }

static int two_paths(char op, int done, int a, const char *from, int b, const char *to) {
    char first[PATH_MAX], second[PATH_MAX];
    int is_first = below(a, from, first), is_second = below(b, to, second);
    if (!done && (is_first || is_second)) note(op, -1, first, second, NULL, 0, 0);
    return done;
}
int renameat(int a, const char *from, int b, const char *to) {
    REAL(int, "renameat", int, const char *, int, const char *);
    begin();
    int done = two_paths('r', real(a, from, b, to), a, from, b, to);
    end();
    return done;
}
int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }
int linkat(int a, const char *from, int b, const char *to, int flags) {
    REAL(int, "linkat", int, const char *, int, const char *, int);
    begin();
    int done = two_paths('l', real(a, from, b, to, flags), a, from, b, to);
    end();
    return done;
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
int symlinkat(const char *target, int at, const char *path) {
    REAL(int, "symlinkat", const char *, int, const char *);
    char full[PATH_MAX];
    begin();
    int done = real(target, at, path);
    if (!done && below(at, path, full)) note('y', -1, full, target, NULL, 0, 0);
    end();
    return done;
}
int symlink(const char *target, const char *path) { return symlinkat(target, AT_FDCWD, path); }
int mkdirat(int at, const char *path, mode_t mode) {
    REAL(int, "mkdirat", int, const char *, mode_t);
    char full[PATH_MAX];
    begin();
    int done = real(at, path, mode);
    if (!done && below(at, path, full)) note('m', -1, full, NULL, NULL, 0, 0);
    end();
    return done;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
int unlinkat(int at, const char *path, int flags) {
    REAL(int, "unlinkat", int, const char *, int);
    char full[PATH_MAX];
    begin();
    int done = real(at, path, flags);
    if (!done && below(at, path, full)) note('u', -1, full, NULL, NULL, 0, 0);
    end();
    return done;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) {
    int done = unlink(path);
    return done && (errno == EISDIR || errno == EPERM) ? rmdir(path) : done;
}
