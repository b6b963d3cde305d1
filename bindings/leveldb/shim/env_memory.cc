// NewMemEnv: in-memory files for the application, and an in-memory file system of Esker for stores.
// They are separate: the application cannot see the files of a store.
#include <leveldb/env.h>
#include <leveldb/slice.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "bridge.h"

// Declared here, because some header packages lack LevelDB's helper headers.
namespace leveldb {
Env *NewMemEnv(Env *base_env);
}

namespace leveldb {
namespace {

struct Contents {
  std::mutex mutex;
  std::string bytes;
};
using Shared = std::shared_ptr<Contents>;

Slice Copied(const Contents &contents, uint64_t offset, size_t n, char *scratch) {
  const uint64_t size = contents.bytes.size();
  const size_t got = static_cast<size_t>(std::min<uint64_t>(n, size - std::min(offset, size)));
  if (got > 0) std::memcpy(scratch, contents.bytes.data() + offset, got);
  return Slice(scratch, got);
}

class MemoryReader : public SequentialFile {
 public:
  explicit MemoryReader(Shared contents) : contents_(std::move(contents)) {}
  Status Read(size_t n, Slice *result, char *scratch) override {
    std::lock_guard<std::mutex> lock(contents_->mutex);
    *result = Copied(*contents_, at_, n, scratch);
    at_ += result->size();
    return Status::OK();
  }
  Status Skip(uint64_t n) override {
    at_ += n;
    return Status::OK();
  }

 private:
  Shared contents_;
  uint64_t at_ = 0;
};

class MemoryRandomReader : public RandomAccessFile {
 public:
  explicit MemoryRandomReader(Shared contents) : contents_(std::move(contents)) {}
  Status Read(uint64_t offset, size_t n, Slice *result, char *scratch) const override {
    std::lock_guard<std::mutex> lock(contents_->mutex);
    *result = Copied(*contents_, offset, n, scratch);
    return Status::OK();
  }

 private:
  Shared contents_;
};

class MemoryWriter : public WritableFile {
 public:
  explicit MemoryWriter(Shared contents) : contents_(std::move(contents)) {}
  Status Append(const Slice &data) override {
    std::lock_guard<std::mutex> lock(contents_->mutex);
    contents_->bytes.append(data.data(), data.size());
    return Status::OK();
  }
  Status Close() override { return Status::OK(); }
  Status Flush() override { return Status::OK(); }
  Status Sync() override { return Status::OK(); }

 private:
  Shared contents_;
};

class NoLogger : public Logger {
 public:
  void Logv(const char *, std::va_list) override {}
};

class MemoryLock : public FileLock {};

class MemoryEnv : public EnvWrapper {
 public:
  explicit MemoryEnv(Env *base) : EnvWrapper(base), memory_(esker_memory_create()) {}
  ~MemoryEnv() override { esker_memory_destroy(memory_); }
  const esker_memory_t *memory() const { return memory_; }

  Status NewSequentialFile(const std::string &fname, SequentialFile **result) override {
    return Open<MemoryReader>(fname, result);
  }
  Status NewRandomAccessFile(const std::string &fname, RandomAccessFile **result) override {
    return Open<MemoryRandomReader>(fname, result);
  }
  Status NewWritableFile(const std::string &fname, WritableFile **result) override {
    std::lock_guard<std::mutex> lock(mutex_);
    files_[fname] = std::make_shared<Contents>();
    *result = new MemoryWriter(files_[fname]);
    return Status::OK();
  }
  Status NewAppendableFile(const std::string &fname, WritableFile **result) override {
    std::lock_guard<std::mutex> lock(mutex_);
    Shared &contents = files_[fname];
    if (!contents) contents = std::make_shared<Contents>();
    *result = new MemoryWriter(contents);
    return Status::OK();
  }
  bool FileExists(const std::string &fname) override { return Find(fname) != nullptr; }
  Status GetChildren(const std::string &dir, std::vector<std::string> *result) override {
    std::lock_guard<std::mutex> lock(mutex_);
    result->clear();
    const std::string prefix = dir + "/";
    for (const auto &file : files_) {
      const std::string &name = file.first;
      const bool inside = name.size() > prefix.size() && name.compare(0, prefix.size(), prefix) == 0;
      if (inside && name.find('/', prefix.size()) == std::string::npos) {
        result->push_back(name.substr(prefix.size()));
      }
    }
    return Status::OK();
  }
  Status RemoveFile(const std::string &fname) override {
    std::lock_guard<std::mutex> lock(mutex_);
    return files_.erase(fname) > 0 ? Status::OK() : Missing(fname);
  }
  Status CreateDir(const std::string &) override { return Status::OK(); }
  Status RemoveDir(const std::string &) override { return Status::OK(); }
  Status GetFileSize(const std::string &fname, uint64_t *size) override {
    const Shared contents = Find(fname);
    *size = 0;
    if (!contents) return Missing(fname);
    std::lock_guard<std::mutex> lock(contents->mutex);
    *size = contents->bytes.size();
    return Status::OK();
  }
  Status RenameFile(const std::string &from, const std::string &to) override {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = files_.find(from);
    if (found == files_.end()) return Missing(from);
    const Shared contents = found->second;
    files_.erase(found);
    files_[to] = contents;
    return Status::OK();
  }
  Status LockFile(const std::string &, FileLock **lock) override {
    *lock = new MemoryLock;
    return Status::OK();
  }
  Status UnlockFile(FileLock *lock) override {
    delete lock;
    return Status::OK();
  }
  Status GetTestDirectory(std::string *path) override {
    *path = "/test";
    return Status::OK();
  }
  Status NewLogger(const std::string &, Logger **result) override {
    *result = new NoLogger;
    return Status::OK();
  }

 private:
  static Status Missing(const std::string &fname) {
    return Status::NotFound(fname, "there is no such file in memory");
  }
  Shared Find(const std::string &fname) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = files_.find(fname);
    return found == files_.end() ? nullptr : found->second;
  }
  template <typename Reader, typename Base>
  Status Open(const std::string &fname, Base **result) {
    const Shared contents = Find(fname);
    *result = contents ? new Reader(contents) : nullptr;
    return contents ? Status::OK() : Missing(fname);
  }

  std::mutex mutex_;
  std::map<std::string, Shared> files_;
  esker_memory_t *memory_;
};

}  // namespace

Env *NewMemEnv(Env *base_env) { return new MemoryEnv(base_env); }

}  // namespace leveldb

namespace esker_shim {

const esker_memory_t *MemoryOf(const leveldb::Env *env) {
  const auto *memory = dynamic_cast<const leveldb::MemoryEnv *>(env);
  return memory == nullptr ? nullptr : memory->memory();
}

}  // namespace esker_shim
