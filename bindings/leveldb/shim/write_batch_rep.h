// Access to the bytes of a batch, for db.cc.
#ifndef ESKER_SHIM_WRITE_BATCH_REP_H
#define ESKER_SHIM_WRITE_BATCH_REP_H

#include <leveldb/write_batch.h>

#include <string>

namespace esker_shim {
const std::string &RepOf(const leveldb::WriteBatch *batch);
}

#endif
