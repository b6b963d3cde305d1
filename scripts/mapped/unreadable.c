/* A FUSE file system over a directory, whose logs cannot be read once a file is there: what
 * scripts/mapped.sh tries the store on.
 *
 *     cc -O2 -o unreadable unreadable.c $(pkg-config --cflags --libs fuse3)
 *     UNDER=/directory UNREADABLE=/a/file ./unreadable /mounted
 *
 * While the file UNREADABLE exists, every read fails with EIO, also the one by which the kernel fills
 * a page of a mapped file; writes go on. Everything else is the directory's. */
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const char *under, *unreadable;

/* The path below; the same thread uses it at once. */
static const char *real_path(int which, const char *path) {
    static __thread char paths[2][PATH_MAX];
    snprintf(paths[which], PATH_MAX, "%s%s", under, path);
    return paths[which];
}

static int result(long done) { return done < 0 ? -errno : 0; }

static void *begin(struct fuse_conn_info *connection, struct fuse_config *config) {
    (void)connection;
    config->use_ino = 1;
    return NULL;
}

static int get_attributes(const char *path, struct stat *to, struct fuse_file_info *file) {
    return result(file ? fstat(file->fh, to) : lstat(real_path(0, path), to));
}

static int make_dir(const char *path, mode_t mode) { return result(mkdir(real_path(0, path), mode)); }
static int remove_dir(const char *path) { return result(rmdir(real_path(0, path))); }
static int remove_file(const char *path) { return result(unlink(real_path(0, path))); }

static int move(const char *from, const char *to, unsigned flags) {
    return result(renameat2(AT_FDCWD, real_path(0, from), AT_FDCWD, real_path(1, to), flags));
}

static int link_file(const char *from, const char *to) {
    return result(link(real_path(0, from), real_path(1, to)));
}

static int set_mode(const char *path, mode_t mode, struct fuse_file_info *file) {
    return result(file ? fchmod(file->fh, mode) : chmod(real_path(0, path), mode));
}

static int set_length(const char *path, off_t len, struct fuse_file_info *file) {
    return result(file ? ftruncate(file->fh, len) : truncate(real_path(0, path), len));
}

static int set_times(const char *path, const struct timespec times[2], struct fuse_file_info *file) {
    return result(file ? futimens(file->fh, times)
                       : utimensat(AT_FDCWD, real_path(0, path), times, AT_SYMLINK_NOFOLLOW));
}

static int open_as(const char *path, struct fuse_file_info *file, mode_t mode) {
    int found = open(real_path(0, path), file->flags & ~O_NOATIME, mode);
    if (found < 0) return -errno;
    file->fh = found;
    return 0;
}

static int open_file(const char *path, struct fuse_file_info *file) { return open_as(path, file, 0); }

static int create_file(const char *path, mode_t mode, struct fuse_file_info *file) {
    return open_as(path, file, mode);
}

static int read_file(const char *path, char *to, size_t len, off_t from, struct fuse_file_info *file) {
    (void)path;
    if (access(unreadable, F_OK) == 0) return -EIO;
    ssize_t done = pread(file->fh, to, len, from);
    return done < 0 ? -errno : (int)done;
}

static int write_file(const char *path, const char *from, size_t len, off_t to,
                      struct fuse_file_info *file) {
    (void)path;
    /* The kernel writes pages of a mapping through any handle, one that only reads too. */
    ssize_t done = pwrite(file->fh, from, len, to);
    return done < 0 ? -errno : (int)done;
}

static int allocate(const char *path, int mode, off_t from, off_t len, struct fuse_file_info *file) {
    (void)path;
    return result(fallocate(file->fh, mode, from, len));
}

static int synchronize(const char *path, int data_only, struct fuse_file_info *file) {
    (void)path;
    return result(data_only ? fdatasync(file->fh) : fsync(file->fh));
}

static int sync_dir(const char *path, int data_only, struct fuse_file_info *file) {
    (void)data_only, (void)file;
    int dir = open(real_path(0, path), O_RDONLY | O_DIRECTORY);
    if (dir < 0) return -errno;
    int done = result(fsync(dir));
    close(dir);
    return done;
}

static int release_file(const char *path, struct fuse_file_info *file) {
    (void)path;
    return result(close(file->fh));
}

static int read_dir(const char *path, void *to, fuse_fill_dir_t fill, off_t from,
                    struct fuse_file_info *file, enum fuse_readdir_flags flags) {
    (void)from, (void)file, (void)flags;
    DIR *dir = opendir(real_path(0, path));
    if (!dir) return -errno;
    for (struct dirent *entry; (entry = readdir(dir));) fill(to, entry->d_name, NULL, 0, 0);
    closedir(dir);
    return 0;
}

static int get_space(const char *path, struct statvfs *to) {
    return result(statvfs(real_path(0, path), to));
}

static const struct fuse_operations operations = {
    .init = begin,
    .getattr = get_attributes,
    .mkdir = make_dir,
    .rmdir = remove_dir,
    .unlink = remove_file,
    .rename = move,
    .link = link_file,
    .chmod = set_mode,
    .truncate = set_length,
    .utimens = set_times,
    .open = open_file,
    .create = create_file,
    .read = read_file,
    .write = write_file,
    .fallocate = allocate,
    .fsync = synchronize,
    .fsyncdir = sync_dir,
    .release = release_file,
    .readdir = read_dir,
    .statfs = get_space,
};

int main(int count, char **words) {
    under = getenv("UNDER");
    unreadable = getenv("UNREADABLE");
    if (!under || !unreadable) {
        fprintf(stderr, "UNDER says which directory, UNREADABLE which file makes reads fail\n");
        return 2;
    }
    return fuse_main(count, words, &operations, NULL);
}
