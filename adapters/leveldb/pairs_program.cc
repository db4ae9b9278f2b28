// A program without any knowledge of drives: it loads pairs of 1 KB into a LevelDB or HyperLevelDB
// database, every key once in random order. `cargo xtask databases` runs it on a drive.
//
//   pairs_program DB FIRST COUNT TABLE_LEN_BYTES BLOCK_LEN_BYTES     puts the pairs from number FIRST on
//
// HyperLevelDB chooses the length of its tables itself.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "../pairs.h"
#ifdef IMBREX_HYPERLEVELDB
#include "hyperleveldb/db.h"
#include "hyperleveldb/filter_policy.h"
#else
#include "leveldb/db.h"
#include "leveldb/filter_policy.h"
#endif

namespace {

void Need(const leveldb::Status& status, const char* what) {
  if (status.ok()) return;
  fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    fprintf(stderr, "usage: pairs_program DB FIRST COUNT TABLE_LEN_BYTES BLOCK_LEN_BYTES\n");
    return 2;
  }
  const uint64_t first = strtoull(argv[2], nullptr, 10);
  const uint64_t count = strtoull(argv[3], nullptr, 10);
  const size_t table_len_bytes = strtoull(argv[4], nullptr, 10);
  std::unique_ptr<const leveldb::FilterPolicy> filter(leveldb::NewBloomFilterPolicy(10));
  leveldb::Options options;
  options.create_if_missing = true;
  options.compression = leveldb::kNoCompression;
  options.filter_policy = filter.get();
  options.write_buffer_size = table_len_bytes;
#ifndef IMBREX_HYPERLEVELDB
  options.max_file_size = table_len_bytes;
#endif
  options.block_size = strtoull(argv[5], nullptr, 10);
  leveldb::DB* opened = nullptr;
  Need(leveldb::DB::Open(options, argv[1], &opened), "open");
  std::unique_ptr<leveldb::DB> db(opened);
  std::string value(kValueLenBytes, 'v');
  for (uint64_t number = first; number < first + count; number++) {
    memcpy(&value[0], &number, sizeof(number));
    Need(db->Put(leveldb::WriteOptions(), Key(number), value), "put");
  }
  printf("loaded %llu pairs\n", static_cast<unsigned long long>(count));
  return 0;
}
