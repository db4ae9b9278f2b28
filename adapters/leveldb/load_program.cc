// A program without any knowledge of drives: it loads a LevelDB database in random order, reads it
// back, and may be killed meanwhile. `cargo xtask adapters` runs it on a drive.
//
//   load_program DB COUNT [KILL_AFTER_MS]   puts COUNT keys, some synced: "synced N"
//   load_program DB verify SYNCED            checks that every write up to SYNCED exists, and of the rest a prefix
//   load_program DB long COUNT               compacts COUNT values of 1 MiB to one table: "level N"
//   load_program DB crowded                  fills the drive's catalog with directories, and opens, compacts,
//                                            empties and destroys a database there: "opened, emptied and destroyed"
//   load_program DB reuse COUNT              with `reuse_logs` and keys that fill a MANIFEST: "made N tables"

#include <signal.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>

#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/write_batch.h"

namespace {

void Need(const leveldb::Status& status, const char* what) {
  if (status.ok()) return;
  fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  exit(1);
}

class SilentLog : public leveldb::Logger {
 public:
  void Logv(const char*, std::va_list) override {}
};

std::unique_ptr<leveldb::DB> Open(const char* path, bool reuse = false,
                                  leveldb::Logger* info_log = nullptr) {
  leveldb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 64 << 10;
  options.max_file_size = 1 << 20;
  options.paranoid_checks = true;
  options.reuse_logs = reuse;
  options.info_log = info_log;
  options.compression = leveldb::kNoCompression;
  leveldb::DB* db = nullptr;
  Need(leveldb::DB::Open(options, path, &db), "open");
  return std::unique_ptr<leveldb::DB>(db);
}

std::string Key(uint64_t index) {
  std::mt19937_64 random(index);
  return "key" + std::to_string(random() % 20000);
}

std::string Value(uint64_t index) {
  return std::to_string(index) + std::string(200 + index % 300, static_cast<char>('a' + index % 26));
}

uint64_t Written(leveldb::DB* db) {
  std::string at;
  leveldb::Status status = db->Get(leveldb::ReadOptions(), "at", &at);
  if (status.IsNotFound()) return 0;
  Need(status, "get");
  return strtoull(at.c_str(), nullptr, 10) + 1;
}

int Verify(const char* path, uint64_t synced) {
  std::unique_ptr<leveldb::DB> db = Open(path);
  uint64_t written = Written(db.get());
  if (written < synced) {
    fprintf(stderr, "LOST: %llu writes were synced, %llu are there\n",
            static_cast<unsigned long long>(synced), static_cast<unsigned long long>(written));
    return 1;
  }
  std::map<std::string, std::string> expected, found;
  for (uint64_t index = 0; index < written; index++) expected[Key(index)] = Value(index);
  if (written > 0) expected["at"] = std::to_string(written - 1);
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
  printf("verified %llu writes\n", static_cast<unsigned long long>(written));
  return 0;
}

leveldb::Status WriteOne(leveldb::DB* db, uint64_t index, bool sync) {
  leveldb::WriteBatch batch;
  batch.Put(Key(index), Value(index));
  batch.Put("at", std::to_string(index));
  leveldb::WriteOptions options;
  options.sync = sync;
  return db->Write(options, &batch);
}

int Write(const char* path, uint64_t count, int kill_after_ms) {
  std::unique_ptr<leveldb::DB> db = Open(path);
  if (kill_after_ms > 0) {
    std::thread([kill_after_ms] {
      usleep(static_cast<useconds_t>(kill_after_ms) * 1000);
      kill(getpid(), SIGKILL);
    }).detach();
  }
  uint64_t start = Written(db.get());
  for (uint64_t index = start; index < start + count; index++) {
    bool sync = index % 50 == 0;
    Need(WriteOne(db.get(), index, sync), "write");
    if (sync) {
      printf("synced %llu\n", static_cast<unsigned long long>(index + 1));
      fflush(stdout);
    }
  }
  return 0;
}

int Crowded(const char* path) {
  Write(path, 2000, 0);
  uint64_t index = 2000;
  {
    // With an info log of its own, compactions are refused later: no space is left for one.
    std::unique_ptr<leveldb::DB> db = Open(path);
    db->CompactRange(nullptr, nullptr);
    for (; index < 2010; index++) Need(WriteOne(db.get(), index, false), "write");
  }
  leveldb::Env* env = leveldb::Env::Default();
  auto directory = [](int i) { return "/crowd" + std::to_string(i) + std::string(240, 'n'); };
  int count = 0;
  leveldb::Status made;
  while ((made = env->CreateDir(directory(count))).ok()) count++;
  if (count < 100 || made.ToString().find("catalog is nearly full") == std::string::npos) {
    fprintf(stderr, "%d directories, and then %s\n", count, made.ToString().c_str());
    return 1;
  }

  // Flushes the content of the log, which the program's own info log does not see.
  SilentLog silent;
  std::unique_ptr<leveldb::DB> db = Open(path, false, &silent);
  for (; index < 2020; index++) Need(WriteOne(db.get(), index, false), "write, with a log of its own");
  db.reset();
  db = Open(path);
  db->CompactRange(nullptr, nullptr);
  for (; index < 2030; index++) Need(WriteOne(db.get(), index, false), "write in a crowded catalog");
  std::string young;
  db->GetProperty("leveldb.num-files-at-level0", &young);
  // New tables are refused, and so are flushes to them.
  while (index < 10000 && WriteOne(db.get(), index, false).ok()) index++;
  if (young != "0" || index == 10000) {
    fprintf(stderr, "%s tables not compacted, %llu writes taken\n", young.c_str(),
            static_cast<unsigned long long>(index));
    return 1;
  }
  db.reset();
  if (Verify(path, index) != 0) return 1;

  for (int i = 0; i < count; i++) Need(env->RemoveDir(directory(i)), "delete a directory");
  Write(path, 2000, 0);
  if (Verify(path, index + 2000) != 0) return 1;
  Need(leveldb::DestroyDB(path, leveldb::Options()), "destroy");
  printf("opened, emptied and destroyed\n");
  return 0;
}

int Reuse(const char* path, uint64_t count) {
  std::unique_ptr<leveldb::DB> db = Open(path, true);
  for (uint64_t index = 0; index < count; index++) {
    Need(db->Put(leveldb::WriteOptions(), Key(index) + std::string(1000, 'k'), Value(index)), "put");
  }
  db.reset();
  std::string log;
  Need(leveldb::ReadFileToString(leveldb::Env::Default(), std::string(path) + "/LOG", &log), "log");
  int made = 0;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("Generated table #") != std::string::npos) made++;
    if (line.find("Level-0 table #") != std::string::npos &&
        line.find(": started") != std::string::npos) {
      made++;
    }
  }
  printf("made %d tables\n", made);
  return 0;
}

int Long(const char* path, int count) {
  leveldb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 100 << 20;
  options.max_file_size = 1 << 30;
  options.compression = leveldb::kNoCompression;
  leveldb::DB* opened = nullptr;
  Need(leveldb::DB::Open(options, path, &opened), "open");
  std::unique_ptr<leveldb::DB> db(opened);
  for (int i = 0; i < count; i++) {
    Need(db->Put(leveldb::WriteOptions(), Key(i), std::string(1 << 20, 'v')), "put");
  }
  db->CompactRange(nullptr, nullptr);
  int last = -1;
  for (int level = 0; level < 7; level++) {
    std::string tables;
    db->GetProperty("leveldb.num-files-at-level" + std::to_string(level), &tables);
    if (tables != "0") last = level;
  }
  printf("level %d\n", last);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: load_program DB (COUNT [KILL_AFTER_MS] | verify SYNCED | crowded | long COUNT | reuse COUNT)\n");
    return 2;
  }
  const char* last = argc > 3 ? argv[3] : "0";
  if (strcmp(argv[2], "verify") == 0) return Verify(argv[1], strtoull(last, nullptr, 10));
  if (strcmp(argv[2], "crowded") == 0) return Crowded(argv[1]);
  if (strcmp(argv[2], "long") == 0) return Long(argv[1], atoi(last));
  if (strcmp(argv[2], "reuse") == 0) return Reuse(argv[1], strtoull(last, nullptr, 10));
  return Write(argv[1], strtoull(argv[2], nullptr, 10), atoi(last));
}
