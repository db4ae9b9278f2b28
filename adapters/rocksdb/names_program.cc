// A program without any knowledge of drives: it calls every function of RocksDB on a database's
// name, with the default environment. `cargo xtask adapters` runs it, with a directory of the same
// name on the host.
//
//   names_program DB          opens, lists, reads, repairs, destroys a database: "all on the drive"
//   names_program DB null     the same with a null environment
//   names_program DB paths    with its tables in separate directories: loads it and destroys it
//
// These commands know their drive, by the URI in IMBREX_URI:
//
//   names_program DB again    opens a database, then the drive a second time, and closes that;
//                             writes to the database, syncs nothing and ends: "written"
//   names_program DB crowded  fills the drive's catalog with directories, and opens, compacts, empties and
//                             destroys a database there: "opened, emptied and destroyed"
//   names_program FILE lost   writes a file to a drive that has lost its power when it is closed: "written"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"
#include "rocksdb/utilities/checkpoint.h"

namespace {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::DB;
using rocksdb::Options;
using rocksdb::Status;

void Need(const Status& status, const char* what) {
  if (status.ok()) return;
  fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  exit(1);
}

// Closes what was opened, after a check that it holds `key`.
void Expect(const char* key, DB* db, const std::vector<ColumnFamilyHandle*>& handles) {
  std::string value;
  Need(db->Get(rocksdb::ReadOptions(), key, &value), key);
  for (ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle);
  delete db;
}

int AllWays(const std::string& path, rocksdb::Env* env) {
  Options options;
  options.create_if_missing = true;
  options.env = env;
  DB* db = nullptr;
  ColumnFamilyHandle* fruit = nullptr;
  Need(DB::Open(options, path, &db), "open");
  Need(db->CreateColumnFamily(options, "fruit", &fruit), "create a family");
  Need(db->Put(rocksdb::WriteOptions(), "key", "value"), "put");
  // A family without a table does not survive a repair.
  Need(db->Put(rocksdb::WriteOptions(), fruit, "apple", "green"), "put");
  Need(db->Flush(rocksdb::FlushOptions(), {db->DefaultColumnFamily(), fruit}), "flush");

  // In a directory that does not exist on the drive: programs create it on the host.
  const std::string copy = path + "-copies/of/today";
  rocksdb::Checkpoint* checkpoint = nullptr;
  Need(rocksdb::Checkpoint::Create(db, &checkpoint), "prepare a checkpoint");
  Need(checkpoint->CreateCheckpoint(copy), "make a checkpoint");
  delete checkpoint;

  DB* other = nullptr;
  std::vector<ColumnFamilyHandle*> handles;
  const std::vector<ColumnFamilyDescriptor> families = {{"default", options}, {"fruit", options}};
  Options secondary = options;
  secondary.max_open_files = -1;
  Need(DB::OpenAsSecondary(secondary, path, path + "-second", &other), "open as secondary");
  Expect("key", other, {});
  Need(DB::OpenAsSecondary(secondary, path, path + "-third", families, &handles, &other),
       "open families as secondary");
  Expect("key", other, handles);
  Expect("key", db, {fruit});

  std::vector<std::string> names;
  Need(DB::ListColumnFamilies(options, path, &names), "list families");
  if (names.size() != 2) {
    fprintf(stderr, "%zu families\n", names.size());
    return 1;
  }
  Need(DB::OpenForReadOnly(options, path, &other), "open for reading");
  Expect("key", other, {});
  Need(DB::OpenForReadOnly(options, path, families, &handles, &other), "open families for reading");
  Expect("key", other, handles);

  Need(rocksdb::RepairDB(path, options), "repair");
  Need(rocksdb::RepairDB(path, options, families), "repair families");
  Need(rocksdb::RepairDB(path, options, families, options), "repair families, and others");
  Need(DB::Open(options, path, families, &handles, &db), "open again");
  Expect("key", db, handles);

  Need(DB::OpenForReadOnly(options, copy, &other), "open the checkpoint");
  Expect("key", other, {});
  Need(rocksdb::DestroyDB(copy, options, families), "destroy the checkpoint");
  Need(rocksdb::DestroyDB(path, options, families), "destroy");
  if (DB::OpenForReadOnly(options, path, &other).ok()) {
    fprintf(stderr, "it is still there\n");
    return 1;
  }
  printf("all on the drive\n");
  return 0;
}

int Paths(const std::string& path) {
  Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 256 << 10;
  options.target_file_size_base = 128 << 10;
  options.max_bytes_for_level_base = 1 << 20;
  options.compression = rocksdb::kNoCompression;
  options.db_paths = {{path + "/fast", 4 << 20}, {path + "/slow", 1 << 30}};
  DB* db = nullptr;
  Need(DB::Open(options, path, &db), "open");
  std::mt19937_64 random(7);
  for (int i = 0; i < 100000; i++) {
    std::string key = std::to_string(random() % 100000);
    Need(db->Put(rocksdb::WriteOptions(), key, std::string(200, 'v')), "put");
  }
  rocksdb::CancelAllBackgroundWork(db, true);
  delete db;
  Need(rocksdb::DestroyDB(path, options), "destroy");
  printf("destroyed\n");
  return 0;
}

// This program's drive, opened by its URI with `more` appended.
std::shared_ptr<rocksdb::Env> Told(const std::string& more) {
  const char* uri = getenv("IMBREX_URI");
  if (uri == nullptr) {
    fprintf(stderr, "no IMBREX_URI\n");
    exit(2);
  }
  rocksdb::Env* env = nullptr;
  std::shared_ptr<rocksdb::Env> guard;
  std::string whole = uri;
  if (!more.empty()) whole += (strchr(uri, '?') == nullptr ? "?" : "&") + more;
  // To RocksDB a text with one '=' is an option and its value.
  std::replace(whole.begin(), whole.end(), '=', ':');
  Need(rocksdb::Env::CreateFromUri(rocksdb::ConfigOptions(), "", whole, &env, &guard), "open the drive");
  return guard;
}

int Again(const std::string& path) {
  Options options;
  options.create_if_missing = true;
  DB* db = nullptr;
  Need(DB::Open(options, path, &db), "open");
  Told("").reset();
  Need(db->Put(rocksdb::WriteOptions(), "key", "value"), "put");
  printf("written\n");
  return 0;  // As many programs do it: the database is not closed.
}

// With `apart`, long values are in separate files, and the info log in a separate directory.
Options CrowdedOptions(const std::string& path, bool apart) {
  Options options;
  options.create_if_missing = true;
  options.level0_file_num_compaction_trigger = 100;
  if (!apart) return options;
  options.enable_blob_files = true;
  options.min_blob_size = 500;
  options.enable_blob_garbage_collection = true;
  options.blob_garbage_collection_age_cutoff = 1.0;
  options.db_log_dir = path + "-logs";
  return options;
}

// Makes a database of some tables, with data in its log.
void Prepare(const std::string& path, const Options& options) {
  DB* db = nullptr;
  Need(DB::Open(options, path, &db), "open");
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 100; i++) {
      Need(db->Put(rocksdb::WriteOptions(), std::to_string(i), std::string(1000, 'v')), "put");
    }
    Need(db->Flush(rocksdb::FlushOptions()), "flush");
  }
  Need(db->Put(rocksdb::WriteOptions(), "long", std::string(1000, 'l')), "put");
  Need(db->Put(rocksdb::WriteOptions(), "key", "in the log"), "put");
  delete db;
}

// Directories that fill the drive's catalog.
struct Crowd {
  std::shared_ptr<rocksdb::Env> env = Told("");
  int count = 0;

  static std::string Directory(int i) {
    return "/crowd/" + std::to_string(i) + std::string(240, 'n');
  }

  // As many as fit.
  void Fill() {
    Status made;
    while ((made = env->CreateDir(Directory(count))).ok()) count++;
    if (count >= 100 && made.IsNoSpace()) return;
    fprintf(stderr, "%d directories, and then %s\n", count, made.ToString().c_str());
    exit(1);
  }

  void Leave() {
    for (int i = 0; i < count; i++) Need(env->DeleteDir(Directory(i)), "delete a directory");
  }
};

// Opens the database and compacts it, by the tables' names and as a whole. New tables are refused.
void UseCrowded(const std::string& path, const Options& options, Crowd* crowd) {
  DB* db = nullptr;
  Need(DB::Open(options, path, &db), "open in a crowded catalog");
  std::vector<rocksdb::LiveFileMetaData> tables;
  db->GetLiveFilesMetaData(&tables);
  std::vector<std::string> names;
  for (const auto& table : tables) names.push_back(table.name);
  Need(db->CompactFiles(rocksdb::CompactionOptions(), names, 1), "compact files in a crowded catalog");
  rocksdb::CompactRangeOptions all;
  all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  Need(db->CompactRange(all, nullptr, nullptr), "compact in a crowded catalog");
  Need(db->Put(rocksdb::WriteOptions(), "more", "in the log"), "put");
  // There is room again, because several tables have become one.
  crowd->Fill();
  Status flushed = db->Flush(rocksdb::FlushOptions());
  if (!flushed.IsNoSpace()) {
    fprintf(stderr, "a new table in a crowded catalog: %s\n", flushed.ToString().c_str());
    exit(1);
  }
  delete db;
}

void UseAgain(const std::string& path, const Options& options) {
  DB* db = nullptr;
  Need(DB::Open(options, path, &db), "open again");
  Need(db->Flush(rocksdb::FlushOptions()), "flush again");
  std::string value;
  for (const char* key : {"more", "long", "99"}) {
    Need(db->Get(rocksdb::ReadOptions(), key, &value), key);
  }
  Expect("key", db, {});
  Need(rocksdb::DestroyDB(path, options), "destroy");
}

int Crowded(const std::string& path) {
  const std::string apart = path + "-apart";
  const Options options = CrowdedOptions(path, false);
  const Options options_apart = CrowdedOptions(apart, true);
  Prepare(path, options);
  Prepare(apart, options_apart);

  Crowd crowd;
  crowd.Fill();
  UseCrowded(path, options, &crowd);
  UseCrowded(apart, options_apart, &crowd);
  crowd.Leave();
  UseAgain(path, options);
  UseAgain(apart, options_apart);
  printf("opened, emptied and destroyed\n");
  return 0;
}

int Lost(const std::string& path) {
  std::shared_ptr<rocksdb::Env> env = Told("cut-after=0");
  Need(rocksdb::WriteStringToFile(env.get(), "nowhere", path), "write");
  printf("written\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[2], "paths") == 0) return Paths(argv[1]);
  if (argc == 3 && strcmp(argv[2], "null") == 0) return AllWays(argv[1], nullptr);
  if (argc == 3 && strcmp(argv[2], "again") == 0) return Again(argv[1]);
  if (argc == 3 && strcmp(argv[2], "crowded") == 0) return Crowded(argv[1]);
  if (argc == 3 && strcmp(argv[2], "lost") == 0) return Lost(argv[1]);
  if (argc == 2) return AllWays(argv[1], rocksdb::Env::Default());
  fprintf(stderr, "usage: names_program DB [null | paths | again | crowded | lost]\n");
  return 2;
}
