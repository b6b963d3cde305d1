// leveldb::Status. Its text is a length, a code and the message, as required by the inline
// functions of the header.
#include <leveldb/status.h>

#include <cstring>

#include "bridge.h"

namespace leveldb {

namespace {
const size_t kTextStart = 5;

uint32_t TextLength(const char *state) {
  uint32_t length;
  std::memcpy(&length, state, sizeof(length));
  return length;
}
}  // namespace

const char *Status::CopyState(const char *state) {
  const size_t size = TextLength(state) + kTextStart;
  char *copy = new char[size];
  std::memcpy(copy, state, size);
  return copy;
}

Status::Status(Code code, const Slice &msg, const Slice &msg2) {
  std::string text(msg.data(), msg.size());
  if (!msg2.empty()) {
    text += ": ";
    text.append(msg2.data(), msg2.size());
  }
  const uint32_t length = static_cast<uint32_t>(text.size());
  char *state = new char[length + kTextStart];
  std::memcpy(state, &length, sizeof(length));
  state[sizeof(length)] = static_cast<char>(code);
  std::memcpy(state + kTextStart, text.data(), length);
  state_ = state;
}

std::string Status::ToString() const {
  if (state_ == nullptr) return "OK";
  const char *kind = "Unknown code: ";
  switch (code()) {
    case kOk: kind = "OK"; break;
    case kNotFound: kind = "NotFound: "; break;
    case kCorruption: kind = "Corruption: "; break;
    case kNotSupported: kind = "Not implemented: "; break;
    case kInvalidArgument: kind = "Invalid argument: "; break;
    case kIOError: kind = "IO error: "; break;
  }
  return kind + std::string(state_ + kTextStart, TextLength(state_));
}

}  // namespace leveldb

namespace esker_shim {

leveldb::Status StatusOf(int32_t code, char *message) {
  if (code == ESKER_OK) return leveldb::Status::OK();
  const std::string text = message == nullptr ? "no reason given" : message;
  esker_free(message);
  switch (code) {
    // LevelDB reports a missing store as an invalid argument. Its NotFound is for keys.
    case ESKER_NOT_FOUND:
    case ESKER_INVALID_ARGUMENT:
    case ESKER_INCOMPATIBLE: return leveldb::Status::InvalidArgument(text);
    case ESKER_CORRUPTION: return leveldb::Status::Corruption(text);
    // LevelDB's text of this error begins with "lock", and applications look for it.
    case ESKER_LOCKED: return leveldb::Status::IOError("lock " + text);
    default: return leveldb::Status::IOError(text);
  }
}

}  // namespace esker_shim
