// leveldb::Env: the abstract classes, and Env::Default() for the operating system's file system.
// Esker does not use them for its own files. Applications use them for their files.
#include <dirent.h>
#include <fcntl.h>
#include <leveldb/env.h>
#include <leveldb/slice.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "bridge.h"

namespace leveldb {

Env::Env() = default;
Env::~Env() = default;
EnvWrapper::~EnvWrapper() = default;
SequentialFile::~SequentialFile() = default;
RandomAccessFile::~RandomAccessFile() = default;
WritableFile::~WritableFile() = default;
Logger::~Logger() = default;
FileLock::~FileLock() = default;

Status Env::NewAppendableFile(const std::string &fname, WritableFile **) {
  return Status::NotSupported("appending to a file", fname);
}
// Each of these pairs is one function with an old and a new name. An Env overrides one of the two.
Status Env::RemoveFile(const std::string &fname) { return DeleteFile(fname); }
Status Env::DeleteFile(const std::string &fname) { return RemoveFile(fname); }
Status Env::RemoveDir(const std::string &dirname) { return DeleteDir(dirname); }
Status Env::DeleteDir(const std::string &dirname) { return RemoveDir(dirname); }

void Log(Logger *info_log, const char *format, ...) {
  if (info_log == nullptr) return;
  std::va_list arguments;
  va_start(arguments, format);
  info_log->Logv(format, arguments);
  va_end(arguments);
}

Status WriteStringToFile(Env *env, const Slice &data, const std::string &fname) {
  WritableFile *file;
  Status status = env->NewWritableFile(fname, &file);
  if (!status.ok()) return status;
  status = file->Append(data);
  if (status.ok()) status = file->Close();
  delete file;
  if (!status.ok()) env->RemoveFile(fname);
  return status;
}

Status ReadFileToString(Env *env, const std::string &fname, std::string *data) {
  data->clear();
  SequentialFile *file;
  Status status = env->NewSequentialFile(fname, &file);
  if (!status.ok()) return status;
  std::string buffer(8192, '\0');
  for (Slice part; status.ok();) {
    status = file->Read(buffer.size(), &part, &buffer[0]);
    if (part.empty()) break;
    data->append(part.data(), part.size());
  }
  delete file;
  return status;
}

namespace {

Status Failed(const std::string &path) {
  const int error = errno;
  const char *why = std::strerror(error);
  return error == ENOENT ? Status::NotFound(path, why) : Status::IOError(path, why);
}

// A file descriptor, closed by the destructor.
class File {
 public:
  File(const std::string &path, int descriptor) : path_(path), descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  const std::string path_;
  int descriptor_;
};

class OsSequentialFile : public SequentialFile {
 public:
  OsSequentialFile(const std::string &path, int descriptor) : file_(path, descriptor) {}
  Status Read(size_t n, Slice *result, char *scratch) override {
    *result = Slice();
    ssize_t got;
    do {
      got = ::read(file_.descriptor_, scratch, n);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return Failed(file_.path_);
    *result = Slice(scratch, static_cast<size_t>(got));
    return Status::OK();
  }
  Status Skip(uint64_t n) override {
    const off_t moved = ::lseek(file_.descriptor_, static_cast<off_t>(n), SEEK_CUR);
    return moved < 0 ? Failed(file_.path_) : Status::OK();
  }

 private:
  File file_;
};

class OsRandomAccessFile : public RandomAccessFile {
 public:
  OsRandomAccessFile(const std::string &path, int descriptor) : file_(path, descriptor) {}
  Status Read(uint64_t offset, size_t n, Slice *result, char *scratch) const override {
    const ssize_t got = ::pread(file_.descriptor_, scratch, n, static_cast<off_t>(offset));
    *result = Slice(scratch, got < 0 ? 0 : static_cast<size_t>(got));
    return got < 0 ? Failed(file_.path_) : Status::OK();
  }

 private:
  File file_;
};

class OsWritableFile : public WritableFile {
 public:
  OsWritableFile(const std::string &path, std::FILE *file) : path_(path), file_(file) {}
  ~OsWritableFile() override { Close(); }
  Status Append(const Slice &data) override {
    if (file_ == nullptr) return Status::IOError(path_, "it was closed");
    const size_t wrote = std::fwrite(data.data(), 1, data.size(), file_);
    return wrote == data.size() ? Status::OK() : Failed(path_);
  }
  Status Close() override {
    std::FILE *file = file_;
    file_ = nullptr;
    return file == nullptr || std::fclose(file) == 0 ? Status::OK() : Failed(path_);
  }
  Status Flush() override {
    return file_ == nullptr || std::fflush(file_) == 0 ? Status::OK() : Failed(path_);
  }
  Status Sync() override {
    Status status = Flush();
    if (!status.ok() || file_ == nullptr) return status;
    return ::fdatasync(::fileno(file_)) == 0 ? Status::OK() : Failed(path_);
  }

 private:
  const std::string path_;
  std::FILE *file_;
};

class OsLogger : public Logger {
 public:
  explicit OsLogger(std::FILE *file) : file_(file) {}
  ~OsLogger() override { std::fclose(file_); }
  void Logv(const char *format, std::va_list arguments) override {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vfprintf(file_, format, arguments);
    std::fputc('\n', file_);
    std::fflush(file_);
  }

 private:
  std::mutex mutex_;
  std::FILE *file_;
};

class OsLock : public FileLock {
 public:
  OsLock(const std::string &path, int descriptor) : file_(path, descriptor) {}
  File file_;
};

class OsEnv : public Env {
 public:
  Status NewSequentialFile(const std::string &fname, SequentialFile **result) override {
    const int descriptor = ::open(fname.c_str(), O_RDONLY | O_CLOEXEC);
    *result = descriptor < 0 ? nullptr : new OsSequentialFile(fname, descriptor);
    return descriptor < 0 ? Failed(fname) : Status::OK();
  }
  Status NewRandomAccessFile(const std::string &fname, RandomAccessFile **result) override {
    const int descriptor = ::open(fname.c_str(), O_RDONLY | O_CLOEXEC);
    *result = descriptor < 0 ? nullptr : new OsRandomAccessFile(fname, descriptor);
    return descriptor < 0 ? Failed(fname) : Status::OK();
  }
  Status NewWritableFile(const std::string &fname, WritableFile **result) override {
    return OpenWritable(fname, "we", result);
  }
  Status NewAppendableFile(const std::string &fname, WritableFile **result) override {
    return OpenWritable(fname, "ae", result);
  }
  bool FileExists(const std::string &fname) override { return ::access(fname.c_str(), F_OK) == 0; }
  Status GetChildren(const std::string &dir, std::vector<std::string> *result) override {
    result->clear();
    DIR *handle = ::opendir(dir.c_str());
    if (handle == nullptr) return Failed(dir);
    while (const dirent *entry = ::readdir(handle)) result->emplace_back(entry->d_name);
    ::closedir(handle);
    return Status::OK();
  }
  Status RemoveFile(const std::string &fname) override {
    return ::unlink(fname.c_str()) == 0 ? Status::OK() : Failed(fname);
  }
  Status CreateDir(const std::string &dirname) override {
    return ::mkdir(dirname.c_str(), 0755) == 0 ? Status::OK() : Failed(dirname);
  }
  Status RemoveDir(const std::string &dirname) override {
    return ::rmdir(dirname.c_str()) == 0 ? Status::OK() : Failed(dirname);
  }
  Status GetFileSize(const std::string &fname, uint64_t *size) override {
    struct stat found;
    *size = 0;
    if (::stat(fname.c_str(), &found) != 0) return Failed(fname);
    *size = static_cast<uint64_t>(found.st_size);
    return Status::OK();
  }
  Status RenameFile(const std::string &from, const std::string &to) override {
    return std::rename(from.c_str(), to.c_str()) == 0 ? Status::OK() : Failed(from);
  }
  Status LockFile(const std::string &fname, FileLock **lock) override;
  Status UnlockFile(FileLock *lock) override;
  void Schedule(void (*function)(void *), void *argument) override;
  void StartThread(void (*function)(void *), void *argument) override {
    std::thread(function, argument).detach();
  }
  Status GetTestDirectory(std::string *path) override;
  Status NewLogger(const std::string &fname, Logger **result) override {
    std::FILE *file = std::fopen(fname.c_str(), "we");
    *result = file == nullptr ? nullptr : new OsLogger(file);
    return file == nullptr ? Failed(fname) : Status::OK();
  }
  uint64_t NowMicros() override {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  }
  void SleepForMicroseconds(int micros) override {
    std::this_thread::sleep_for(std::chrono::microseconds(micros));
  }

 private:
  Status OpenWritable(const std::string &fname, const char *mode, WritableFile **result) {
    std::FILE *file = std::fopen(fname.c_str(), mode);
    *result = file == nullptr ? nullptr : new OsWritableFile(fname, file);
    return file == nullptr ? Failed(fname) : Status::OK();
  }

  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<std::pair<void (*)(void *), void *>> queue_;
  bool worker_started_ = false;
  // Locked files. One process must not lock a file twice, but the operating system allows it.
  std::set<std::string> locked_;
};

Status OsEnv::LockFile(const std::string &fname, FileLock **lock) {
  *lock = nullptr;
  const int descriptor = ::open(fname.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return Failed(fname);
  std::lock_guard<std::mutex> guard(mutex_);
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (!locked_.insert(fname).second) {
    ::close(descriptor);
    return Status::IOError("lock " + fname, "this process holds it already");
  }
  if (::fcntl(descriptor, F_SETLK, &whole) != 0) {
    const Status status = Status::IOError("lock " + fname, std::strerror(errno));
    locked_.erase(fname);
    ::close(descriptor);
    return status;
  }
  *lock = new OsLock(fname, descriptor);
  return Status::OK();
}

Status OsEnv::UnlockFile(FileLock *lock) {
  std::lock_guard<std::mutex> guard(mutex_);
  OsLock *held = static_cast<OsLock *>(lock);
  locked_.erase(held->file_.path_);
  delete held;
  return Status::OK();
}

void OsEnv::Schedule(void (*function)(void *), void *argument) {
  std::lock_guard<std::mutex> guard(mutex_);
  queue_.emplace_back(function, argument);
  work_.notify_one();
  if (worker_started_) return;
  worker_started_ = true;
  std::thread([this] {
    while (true) {
      std::unique_lock<std::mutex> lock(mutex_);
      work_.wait(lock, [this] { return !queue_.empty(); });
      const auto next = queue_.front();
      queue_.pop_front();
      lock.unlock();
      next.first(next.second);
    }
  }).detach();
}

Status OsEnv::GetTestDirectory(std::string *path) {
  leveldb_env_t *env = leveldb_create_default_env();
  char *found = leveldb_env_get_test_directory(env);
  leveldb_env_destroy(env);
  if (found == nullptr) return Status::IOError("the directory for tests cannot be made");
  path->assign(found);
  leveldb_free(found);
  return Status::OK();
}

}  // namespace

Env *Env::Default() {
  // Never destroyed, because threads may use it until the process ends.
  static OsEnv *env = new OsEnv;
  return env;
}

}  // namespace leveldb

namespace esker_shim {
bool IsDefaultEnv(const leveldb::Env *env) { return env == leveldb::Env::Default(); }
}  // namespace esker_shim
