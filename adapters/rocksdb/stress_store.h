// The database of a stress run: its options, which vary with the seed and from one opening to the next,
// and how it is read.
#pragma once

#include <string>
#include <vector>

#include "../stress/state.h"
#include "rocksdb/db.h"

namespace stress {

// An open database and its column families.
struct Store {
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> families;

  ~Store() {
    for (rocksdb::ColumnFamilyHandle* family : families) delete family;
    delete db;
  }
};

// Opens the database at `path` for its opening number `opening`; the same only to read, which writes nothing;
// a copy of it, in `env`, only to read.
rocksdb::Status Open(const std::string& path, uint64_t seed, uint64_t opening, Store* store);
rocksdb::Status OpenToRead(const std::string& path, uint64_t seed, uint64_t opening, Store* store);
rocksdb::Status OpenCopy(const std::string& path, uint64_t seed, uint64_t opening,
                         rocksdb::Env* env, Store* store);

// Everything of a thread in one column family, from the front or from behind.
rocksdb::Status Scan(const Store& store, int family, int thread, rocksdb::ReadOptions options,
                     bool backwards, Table* table);

// Removes a directory and the files in it, as far as they are there.
void RemoveDir(rocksdb::Env* env, const std::string& dir);

}  // namespace stress
