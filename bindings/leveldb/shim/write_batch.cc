// leveldb::WriteBatch in LevelDB's layout, because applications may read it: sequence number (8
// bytes), count (4 bytes), operations. An operation is a kind, a key and, for a put, a value. Each
// key and value follows its length, a varint.
#include <leveldb/slice.h>
#include <leveldb/write_batch.h>

#include "write_batch_rep.h"

namespace leveldb {

namespace {
const size_t kHeader = 12;
const size_t kCountAt = 8;
const char kDeletion = 0;
const char kValue = 1;

uint32_t Count(const std::string &rep) {
  uint32_t count = 0;
  for (int i = 3; i >= 0; i--) {
    count = count << 8 | static_cast<unsigned char>(rep[kCountAt + i]);
  }
  return count;
}

void AddToCount(std::string *rep, uint32_t more) {
  uint32_t count = Count(*rep) + more;
  for (int i = 0; i < 4; i++, count >>= 8) {
    (*rep)[kCountAt + i] = static_cast<char>(count & 0xff);
  }
}

void AppendBytes(std::string *rep, const Slice &bytes) {
  size_t length = bytes.size();
  for (; length >= 0x80; length >>= 7) rep->push_back(static_cast<char>(length | 0x80));
  rep->push_back(static_cast<char>(length));
  rep->append(bytes.data(), bytes.size());
}

bool TakeBytes(Slice *rest, Slice *bytes) {
  uint64_t length = 0;
  for (int shift = 0; shift <= 28; shift += 7) {
    if (rest->empty()) return false;
    const unsigned char byte = (*rest)[0];
    rest->remove_prefix(1);
    length |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      if (length > rest->size()) return false;
      *bytes = Slice(rest->data(), length);
      rest->remove_prefix(length);
      return true;
    }
  }
  return false;
}
}  // namespace

// LevelDB's header declares this class as a friend of WriteBatch.
class WriteBatchInternal {
 public:
  static const std::string &Rep(const WriteBatch *batch) { return batch->rep_; }
};

WriteBatch::WriteBatch() { Clear(); }
WriteBatch::~WriteBatch() = default;
WriteBatch::Handler::~Handler() = default;

void WriteBatch::Clear() {
  rep_.clear();
  rep_.resize(kHeader);
}

size_t WriteBatch::ApproximateSize() const { return rep_.size(); }

void WriteBatch::Put(const Slice &key, const Slice &value) {
  AddToCount(&rep_, 1);
  rep_.push_back(kValue);
  AppendBytes(&rep_, key);
  AppendBytes(&rep_, value);
}

void WriteBatch::Delete(const Slice &key) {
  AddToCount(&rep_, 1);
  rep_.push_back(kDeletion);
  AppendBytes(&rep_, key);
}

void WriteBatch::Append(const WriteBatch &source) {
  AddToCount(&rep_, Count(source.rep_));
  // The length is taken before the append, because the source may be this batch.
  const size_t length = source.rep_.size() - kHeader;
  rep_.reserve(rep_.size() + length);
  rep_.append(source.rep_.data() + kHeader, length);
}

Status WriteBatch::Iterate(Handler *handler) const {
  if (rep_.size() < kHeader) return Status::Corruption("the WriteBatch is shorter than its header");
  Slice rest(rep_.data() + kHeader, rep_.size() - kHeader);
  uint32_t found = 0;
  for (; !rest.empty(); found++) {
    const char kind = rest[0];
    rest.remove_prefix(1);
    Slice key, value;
    if (kind == kValue) {
      if (!TakeBytes(&rest, &key) || !TakeBytes(&rest, &value)) {
        return Status::Corruption("the WriteBatch holds a malformed put");
      }
      handler->Put(key, value);
    } else if (kind == kDeletion) {
      if (!TakeBytes(&rest, &key)) return Status::Corruption("the WriteBatch holds a malformed delete");
      handler->Delete(key);
    } else {
      return Status::Corruption("the WriteBatch holds an operation of an unknown kind");
    }
  }
  if (found != Count(rep_)) return Status::Corruption("the WriteBatch does not hold as many operations as its header states");
  return Status::OK();
}

}  // namespace leveldb

namespace esker_shim {

const std::string &RepOf(const leveldb::WriteBatch *batch) {
  return leveldb::WriteBatchInternal::Rep(batch);
}

}  // namespace esker_shim
