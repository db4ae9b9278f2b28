// The database of a stress run: its options, which vary with the seed and with each opening, and
// how to read it.
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

// Opens the database at `path` for opening number `opening`; the same read-only, which writes
// nothing; a copy of it, in `env`, read-only.
rocksdb::Status Open(const std::string& path, uint64_t seed, uint64_t opening, Store* store);
rocksdb::Status OpenToRead(const std::string& path, uint64_t seed, uint64_t opening, Store* store);
rocksdb::Status OpenCopy(const std::string& path, uint64_t seed, uint64_t opening,
                         rocksdb::Env* env, Store* store);

// Reads all keys of a thread in one column family, forwards or backwards.
rocksdb::Status Scan(const Store& store, int family, int thread, rocksdb::ReadOptions options,
                     bool backwards, Table* table);

// Removes a directory and its files, if they exist.
void RemoveDir(rocksdb::Env* env, const std::string& dir);

}  // namespace stress
