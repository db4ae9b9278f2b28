// A program without any knowledge of drives: it makes tables whose level a drive may record
// wrongly. `cargo xtask adapters` runs it and compares its output with the drive.
//
//   levels_program DB long      compacts to one table that is longer than a piece of a file: "level N"
//   levels_program DB shared    moves a table while a checkpoint's MANIFEST is copied: "level N"
//   levels_program DB back      moves a table, and back to the level with which it was placed: "level N"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"

namespace {

using rocksdb::DB;
using rocksdb::Env;
using rocksdb::Status;

constexpr char kManifest[] = "MANIFEST-";

void Need(const Status& status, const char* what) {
  if (status.ok()) return;
  fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  exit(1);
}

std::unique_ptr<DB> Open(const std::string& path) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.disable_auto_compactions = true;
  options.compression = rocksdb::kNoCompression;
  options.write_buffer_size = 512 << 20;
  options.target_file_size_base = 1 << 30;
  DB* db = nullptr;
  Need(DB::Open(options, path, &db), "open");
  return std::unique_ptr<DB>(db);
}

// Flushes a table of `count` values of `len_bytes`. Two tables overlap if they have the same
// `count`.
void PutTable(DB* db, int table, int count, size_t len_bytes) {
  std::mt19937_64 random(table);
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  for (int i = 0; i < count; i++) {
    std::string value(len_bytes, static_cast<char>(random()));
    Need(db->Put(options, std::to_string(i) + "/" + std::to_string(table), value), "put");
  }
  Need(db->Flush(rocksdb::FlushOptions()), "flush");
}

void CopyUpTo(Env* env, const std::string& from, const std::string& to, uint64_t size) {
  std::unique_ptr<rocksdb::SequentialFile> in;
  std::unique_ptr<rocksdb::WritableFile> out;
  Need(env->NewSequentialFile(from, &in, rocksdb::EnvOptions()), "read a MANIFEST");
  Need(env->NewWritableFile(to, &out, rocksdb::EnvOptions()), "create a MANIFEST");
  std::string buffer(size, '\0');
  rocksdb::Slice got;
  Need(in->Read(size, &got, &buffer[0]), "read a MANIFEST");
  Need(out->Append(got), "write a MANIFEST");
  Need(out->Sync(), "sync a MANIFEST");
  Need(out->Close(), "close a MANIFEST");
}

// The only table of the database.
rocksdb::LiveFileMetaData Table(DB* db) {
  std::vector<rocksdb::LiveFileMetaData> tables;
  db->GetLiveFilesMetaData(&tables);
  if (tables.size() == 1) return tables[0];
  fprintf(stderr, "%zu tables\n", tables.size());
  exit(1);
}

int Long(const std::string& path) {
  std::unique_ptr<DB> db = Open(path);
  for (int table = 0; table < 3; table++) PutTable(db.get(), table, 100, 1 << 20);
  Need(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr), "compact");
  printf("level %d\n", Table(db.get()).level);
  return 0;
}

// Moves the only table of the database to another level without rewriting it.
void Move(DB* db, int level) {
  rocksdb::CompactRangeOptions options;
  options.change_level = true;
  options.target_level = level;
  const std::string before = Table(db).name;
  Need(db->CompactRange(options, nullptr, nullptr), "move");
  if (Table(db).name == before && Table(db).level == level) return;
  fprintf(stderr, "it was rewritten, or has level %d\n", Table(db).level);
  exit(1);
}

int Back(const std::string& path) {
  std::unique_ptr<DB> db = Open(path);
  PutTable(db.get(), 0, 100, 1000);
  int placed = Table(db.get()).level;
  Move(db.get(), 3);
  Move(db.get(), placed);
  printf("level %d\n", Table(db.get()).level);
  return 0;
}

// Makes a checkpoint like RocksDB: lists its files, then links or copies them. Meanwhile the
// database continues.
int Shared(const std::string& path) {
  std::unique_ptr<DB> db = Open(path);
  PutTable(db.get(), 0, 100, 1000);
  std::vector<std::string> files;
  uint64_t manifest_size = 0;
  Need(db->GetLiveFiles(files, &manifest_size), "list files");
  Move(db.get(), 3);

  Env* env = db->GetEnv();
  const std::string checkpoint = path + "-checkpoint.tmp";
  Need(env->CreateDir(checkpoint), "make a directory");
  for (const std::string& file : files) {
    if (file.find(".sst") != std::string::npos) {
      Need(env->LinkFile(path + file, checkpoint + file), "link a table");
    }
  }
  for (const std::string& file : files) {
    if (file.find(kManifest) != std::string::npos) {
      CopyUpTo(env, path + file, checkpoint + file, manifest_size);
    }
  }
  printf("level %d\n", Table(db.get()).level);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[2], "long") == 0) return Long(argv[1]);
  if (argc == 3 && strcmp(argv[2], "shared") == 0) return Shared(argv[1]);
  if (argc == 3 && strcmp(argv[2], "back") == 0) return Back(argv[1]);
  fprintf(stderr, "usage: levels_program DB (long | shared | back)\n");
  return 2;
}
