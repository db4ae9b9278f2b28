// A program without any knowledge of drives: it writes to a RocksDB database until it is killed,
// and checks what it finds. `cargo xtask adapters` runs it on a drive, where the death of a process
// is a power cut.
//
//   crash_program DB SEED OPS KILL_AFTER_MS     prints "synced N" once write N is acknowledged as synced
//   crash_program DB SEED verify SYNCED          checks for a prefix of the writes, at least up to SYNCED
//   crash_program DB SEED mark TEXT              writes TEXT and more behind it, all synced, and dies
//
// Write I changes some keys, and the key "at", in one batch. SEED and I determine each write.

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"

namespace {

using rocksdb::DB;
using rocksdb::Status;
using Model = std::map<std::string, std::string>;

void Need(const Status& status, const char* what) {
  if (status.ok()) return;
  fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  exit(1);
}

std::unique_ptr<DB> Open(const char* path) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 128 << 10;
  options.target_file_size_base = 64 << 10;
  options.max_bytes_for_level_base = 256 << 10;
  options.level0_file_num_compaction_trigger = 2;
  options.max_background_jobs = 4;
  options.paranoid_checks = true;
  DB* db = nullptr;
  Need(DB::Open(options, path, &db), "open");
  return std::unique_ptr<DB>(db);
}

struct Op {
  bool sync;
  bool flush;
  std::map<std::string, std::string> puts;  // An empty value deletes.
};

Op OpOf(uint64_t seed, uint64_t index) {
  std::mt19937_64 random(seed * 1000003 + index);
  Op op;
  op.sync = random() % 4 == 0;
  op.flush = random() % 500 == 0;
  for (uint64_t count = 1 + random() % 4; count > 0; count--) {
    std::string key = "key" + std::to_string(random() % 3000);
    size_t length = random() % 8 == 0 ? 0 : 1 + random() % 700;
    std::string value = length == 0 ? "" : std::to_string(index) + ":";
    value.append(length, static_cast<char>('a' + random() % 26));
    op.puts[key] = length == 0 ? "" : value;
  }
  return op;
}

void Apply(const Op& op, uint64_t index, Model* model) {
  for (const auto& put : op.puts) {
    if (put.second.empty()) {
      model->erase(put.first);
    } else {
      (*model)[put.first] = put.second;
    }
  }
  (*model)["at"] = std::to_string(index);
}

// How many writes the database holds.
uint64_t Written(DB* db) {
  std::string at;
  Status status = db->Get(rocksdb::ReadOptions(), "at", &at);
  if (status.IsNotFound()) return 0;
  Need(status, "get");
  return strtoull(at.c_str(), nullptr, 10) + 1;
}

int Verify(const char* path, uint64_t seed, uint64_t synced) {
  std::unique_ptr<DB> db = Open(path);
  uint64_t written = Written(db.get());
  if (written < synced) {
    fprintf(stderr, "LOST: %llu writes were synced, %llu are there\n",
            static_cast<unsigned long long>(synced), static_cast<unsigned long long>(written));
    return 1;
  }
  Model expected;
  for (uint64_t index = 0; index < written; index++) Apply(OpOf(seed, index), index, &expected);
  Model found;
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(options));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    found[it->key().ToString()] = it->value().ToString();
  }
  Need(it->status(), "scan");
  if (found != expected) {
    fprintf(stderr, "DIFFERS: %zu keys found, %zu expected after %llu writes\n", found.size(),
            expected.size(), static_cast<unsigned long long>(written));
    return 1;
  }
  printf("verified %llu writes, %zu keys\n", static_cast<unsigned long long>(written),
         found.size());
  return 0;
}

int Write(const char* path, uint64_t seed, uint64_t count, int kill_after_ms) {
  std::unique_ptr<DB> db = Open(path);
  if (kill_after_ms > 0) {
    std::thread([kill_after_ms] {
      usleep(static_cast<useconds_t>(kill_after_ms) * 1000);
      kill(getpid(), SIGKILL);
    }).detach();
  }
  uint64_t start = Written(db.get());
  for (uint64_t index = start; index < start + count; index++) {
    Op op = OpOf(seed, index);
    rocksdb::WriteBatch batch;
    for (const auto& put : op.puts) {
      Need(put.second.empty() ? batch.Delete(put.first) : batch.Put(put.first, put.second), "batch");
    }
    Need(batch.Put("at", std::to_string(index)), "batch");
    rocksdb::WriteOptions options;
    options.sync = op.sync;
    Need(db->Write(options, &batch), "write");
    if (op.flush) Need(db->Flush(rocksdb::FlushOptions()), "flush");
    if (op.sync || op.flush) {
      printf("synced %llu\n", static_cast<unsigned long long>(index + 1));
      fflush(stdout);
    }
  }
  return 0;
}

int Mark(const char* path, const char* text) {
  std::unique_ptr<DB> db = Open(path);
  rocksdb::WriteOptions options;
  options.sync = true;
  // Short files are in the catalog.
  for (int i = 0; i < 8; i++) Need(db->Put(options, "before", std::string(5000, 'a')), "put");
  Need(db->Put(options, "marked", text), "put");
  for (int i = 0; i < 8; i++) Need(db->Put(options, "behind", std::string(5000, 'b')), "put");
  kill(getpid(), SIGKILL);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: crash_program DB SEED (OPS KILL_AFTER_MS | verify SYNCED | mark TEXT)\n");
    return 2;
  }
  uint64_t seed = strtoull(argv[2], nullptr, 10);
  if (strcmp(argv[3], "verify") == 0) return Verify(argv[1], seed, strtoull(argv[4], nullptr, 10));
  if (strcmp(argv[3], "mark") == 0) return Mark(argv[1], argv[4]);
  return Write(argv[1], seed, strtoull(argv[3], nullptr, 10), atoi(argv[4]));
}
