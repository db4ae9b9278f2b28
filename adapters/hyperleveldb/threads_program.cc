// A program without any knowledge of drives: threads load a HyperLevelDB database together, and it
// may be killed meanwhile. `cargo xtask adapters` runs it on a drive.
//
//   threads_program DB THREADS COUNT [KILL_AFTER_MS]   each thread puts COUNT keys, some synced:
//                                                      "synced THREAD N"
//   threads_program DB THREADS verify N...             of each thread's writes the first N exist, and
//                                                      of the rest a prefix; also checks that
//                                                      LiveBackup's copy opens
//
// The first record after each opening ends with a whole block of the log. HyperLevelDB then leaves
// a hole behind it, at which its own Env loses the next 32 KiB.

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
#include <vector>

#include "hyperleveldb/db.h"
#include "hyperleveldb/write_batch.h"

namespace {

using Database = std::unique_ptr<leveldb::DB>;

void Need(const leveldb::Status& status, const char* what) {
  if (status.ok()) return;
  fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  exit(1);
}

Database Open(const std::string& path) {
  leveldb::Options options;
  options.create_if_missing = true;
  // Room for the first record, and for as much behind it as the reader would skip.
  options.write_buffer_size = 128 << 10;
  options.compression = leveldb::kNoCompression;
  leveldb::DB* db = nullptr;
  Need(leveldb::DB::Open(options, path, &db), "open");
  return Database(db);
}

std::string Prefix(int thread) { return "t" + std::to_string(thread) + "-"; }

std::string Key(int thread, uint64_t index) {
  std::mt19937_64 random(index);
  return Prefix(thread) + std::to_string(random() % 20000);
}

std::string Value(uint64_t index) {
  return std::to_string(index) + std::string(200 + index % 300, static_cast<char>('a' + index % 26));
}

uint64_t Count(leveldb::DB* db, const std::string& key) {
  std::string at;
  leveldb::Status status = db->Get(leveldb::ReadOptions(), key, &at);
  if (status.IsNotFound()) return 0;
  Need(status, "get");
  return strtoull(at.c_str(), nullptr, 10) + 1;
}

uint64_t Written(leveldb::DB* db, int thread) { return Count(db, Prefix(thread) + "at"); }

// One record of 65,522 bytes, which makes an empty log two whole blocks long. Each block has a
// header of 7 bytes; in the record are 12 bytes of the batch, 1 of the put, 1 + 4 of the key, 3 of
// the value's length.
std::string WholeBlocks(uint64_t opened) {
  std::string value = std::to_string(opened) + " ";
  return value + std::string(2 * (32768 - 7) - 12 - 1 - 1 - 4 - 3 - value.size(), 'w');
}

int Check(const std::string& path, const std::vector<uint64_t>& synced) {
  Database db = Open(path);
  std::map<std::string, std::string> expected, found;
  uint64_t total = 0;
  for (size_t thread = 0; thread < synced.size(); thread++) {
    int number = static_cast<int>(thread);
    uint64_t written = Written(db.get(), number);
    if (written < synced[thread]) {
      fprintf(stderr, "LOST: %llu writes of thread %d were synced, %llu are there\n",
              static_cast<unsigned long long>(synced[thread]), number,
              static_cast<unsigned long long>(written));
      return 1;
    }
    for (uint64_t at = 0; at < written; at++) expected[Key(number, at)] = Value(at);
    if (written > 0) expected[Prefix(number) + "at"] = std::to_string(written - 1);
    total += written;
  }
  uint64_t opened = Count(db.get(), "full");
  if (opened > 0) expected["full"] = WholeBlocks(opened - 1);
  leveldb::ReadOptions options;
  options.verify_checksums = true;
  std::unique_ptr<leveldb::Iterator> it(db->NewIterator(options));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    found[it->key().ToString()] = it->value().ToString();
  }
  Need(it->status(), "scan");
  if (found != expected) {
    fprintf(stderr, "DIFFERS: %zu keys found, %zu expected\n", found.size(), expected.size());
    return 1;
  }
  printf("verified %llu writes\n", static_cast<unsigned long long>(total));
  return 0;
}

int Verify(const std::string& path, const std::vector<uint64_t>& synced) {
  // The database as found, then what LiveBackup links and copies of it.
  if (Check(path, synced) != 0) return 1;
  std::string name = std::to_string(getpid());
  Need(Open(path)->LiveBackup(name), "backup");
  return Check(path + "/backup-" + name, synced);
}

void Load(leveldb::DB* db, int thread, uint64_t count) {
  uint64_t start = Written(db, thread);
  for (uint64_t index = start; index < start + count; index++) {
    leveldb::WriteBatch batch;
    batch.Put(Key(thread, index), Value(index));
    batch.Put(Prefix(thread) + "at", std::to_string(index));
    leveldb::WriteOptions options;
    options.sync = index % 25 == 0;
    Need(db->Write(options, &batch), "write");
    if (options.sync) {
      printf("synced %d %llu\n", thread, static_cast<unsigned long long>(index + 1));
      fflush(stdout);
    }
  }
}

int Write(const char* path, int threads, uint64_t count, int kill_after_ms) {
  Database db = Open(path);
  if (kill_after_ms > 0) {
    std::thread([kill_after_ms] {
      usleep(static_cast<useconds_t>(kill_after_ms) * 1000);
      kill(getpid(), SIGKILL);
    }).detach();
  }
  leveldb::WriteOptions sync;
  sync.sync = true;
  Need(db->Put(sync, "full", WholeBlocks(Count(db.get(), "full"))), "write");
  std::vector<std::thread> loads;
  for (int thread = 0; thread < threads; thread++) {
    loads.emplace_back(Load, db.get(), thread, count);
  }
  for (std::thread& load : loads) load.join();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: threads_program DB THREADS (COUNT [KILL_AFTER_MS] | verify N...)\n");
    return 2;
  }
  int threads = atoi(argv[2]);
  if (strcmp(argv[3], "verify") != 0) {
    return Write(argv[1], threads, strtoull(argv[3], nullptr, 10), argc > 4 ? atoi(argv[4]) : 0);
  }
  std::vector<uint64_t> synced(static_cast<size_t>(threads), 0);
  for (int i = 4; i < argc && i - 4 < threads; i++) {
    synced[static_cast<size_t>(i - 4)] = strtoull(argv[i], nullptr, 10);
  }
  return Verify(argv[1], synced);
}
