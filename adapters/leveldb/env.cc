#include "env.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "../levels/levels.h"
#include "../levels/manifest.h"
#include "info_log.h"
#include "names.h"

namespace imbrex_leveldb {
namespace {

using imbrex_levels::Drive;
using imbrex_levels::LevelBook;
using imbrex_levels::ManifestReader;
using imbrex_levels::Normal;
using leveldb::Slice;
using leveldb::Status;

class Sequential : public leveldb::SequentialFile {
 public:
  Sequential(std::shared_ptr<Drive> drive, std::string path, imbrex_reader* reader)
      : drive_(std::move(drive)), path_(std::move(path)), reader_(reader) {}
  ~Sequential() override { imbrex_reader_close(reader_); }

  Status Read(size_t n, Slice* result, char* scratch) override {
    size_t got = 0;
    uint8_t* out = reinterpret_cast<uint8_t*>(scratch);
    imbrex_status status = imbrex_reader_read_at(reader_, offset_, out, n, &got);
    offset_ += got;
    *result = Slice(scratch, got);
    return Translate(status, path_);
  }

  Status Skip(uint64_t n) override {
    offset_ += n;
    return Status::OK();
  }

 private:
  std::shared_ptr<Drive> drive_;
  std::string path_;
  imbrex_reader* reader_;
  uint64_t offset_ = 0;
};

class RandomAccess : public leveldb::RandomAccessFile {
 public:
  RandomAccess(std::shared_ptr<Drive> drive, std::string path, imbrex_reader* reader)
      : drive_(std::move(drive)), path_(std::move(path)), reader_(reader) {}
  ~RandomAccess() override { imbrex_reader_close(reader_); }

  Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const override {
    size_t got = 0;
    uint8_t* out = reinterpret_cast<uint8_t*>(scratch);
    imbrex_status status = imbrex_reader_read_at(reader_, offset, out, n, &got);
    *result = Slice(scratch, got);
    return Translate(status, path_);
  }

 private:
  std::shared_ptr<Drive> drive_;
  std::string path_;
  imbrex_reader* reader_;
};

class Writable : public leveldb::WritableFile {
 public:
  Writable(std::shared_ptr<Drive> drive, std::string path, imbrex_writer* writer)
      : drive_(std::move(drive)), path_(std::move(path)), writer_(writer) {
    manifest_ = ReadManifest(drive_, path_, writer_);
  }
  ~Writable() override {
    if (writer_ != nullptr) Close();
  }

  Status Append(const Slice& data) override {
    if (!told_) {  // A long table is placed in pieces, before any sync.
      told_ = true;
      TellLevel();
    }
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(data.data());
    imbrex_status status = imbrex_writer_append(writer_, bytes, data.size());
    if (status == IMBREX_STATUS_OK && manifest_ != nullptr) {
      manifest_->Append(data.data(), data.size());
    }
    return Translate(status, path_);
  }

  // LevelDB flushes after every write. Appended data is readable already, so there is nothing to
  // do.
  Status Flush() override { return Status::OK(); }

  Status Sync() override {
    TellLevel();
    return Translate(imbrex_writer_sync(writer_), path_);
  }

  Status Close() override {
    TellLevel();
    imbrex_writer* writer = writer_;
    writer_ = nullptr;
    return Translate(imbrex_writer_close(writer), path_);
  }

 private:
  void TellLevel() {
    if (!IsTable(path_)) return;
    imbrex_levels::Knowledge known = LevelBook::Get().Known(path_, -1);
    imbrex_hints hints = HintsOf(path_);
    hints.level = static_cast<uint8_t>(known.level > 0 ? known.level : 0);
    hints.may_use_reserve = known.needed;
    imbrex_writer_set_hints(writer_, &hints);
  }

  std::shared_ptr<Drive> drive_;
  std::string path_;
  imbrex_writer* writer_;
  bool told_ = false;
  std::unique_ptr<ManifestReader> manifest_;
};

class Lock : public leveldb::FileLock {
 public:
  explicit Lock(std::string path) : path(std::move(path)) {}
  const std::string path;
};

}  // namespace

Status ImbrexEnv::NewSequentialFile(const std::string& path, leveldb::SequentialFile** result) {
  if (IsLog(path)) LogRead();
  imbrex_reader* reader = nullptr;
  imbrex_status status = imbrex_reader_open(drive_->get(), path.c_str(), &reader);
  *result = status == IMBREX_STATUS_OK ? new Sequential(drive_, path, reader) : nullptr;
  return Translate(status, path);
}

Status ImbrexEnv::NewRandomAccessFile(const std::string& path, leveldb::RandomAccessFile** result) {
  imbrex_reader* reader = nullptr;
  imbrex_status status = imbrex_reader_open(drive_->get(), path.c_str(), &reader);
  *result = status == IMBREX_STATUS_OK ? new RandomAccess(drive_, path, reader) : nullptr;
  return Translate(status, path);
}

Status ImbrexEnv::NewWritableFile(const std::string& path, leveldb::WritableFile** result) {
  const std::string normal = Normal(path);
  imbrex_hints hints = HintsOf(path);
  if (IsTable(path)) {
    TableCreated(normal);
    hints.may_use_reserve = LevelBook::Get().Needed(normal);
  }
  imbrex_writer* writer = nullptr;
  imbrex_status status = imbrex_writer_create(drive_->get(), path.c_str(), &hints, &writer);
  *result = status == IMBREX_STATUS_OK ? new Writable(drive_, normal, writer) : nullptr;
  if (status != IMBREX_STATUS_OK) LevelBook::Get().Deleted(normal);
  return Translate(status, path);
}

#ifndef IMBREX_HYPERLEVELDB
Status ImbrexEnv::NewAppendableFile(const std::string& path, leveldb::WritableFile** result) {
  imbrex_writer* writer = nullptr;
  imbrex_status status = imbrex_writer_open(drive_->get(), path.c_str(), &writer);
  if (status == IMBREX_STATUS_NOT_FOUND) return NewWritableFile(path, result);
  if (status == IMBREX_STATUS_OK && !IsTable(path)) {
    // The drive does not know the file's purpose. Only a hint: if it fails, the next write fails
    // too.
    imbrex_hints hints = HintsOf(path);
    imbrex_writer_set_hints(writer, &hints);
  }
  *result = status == IMBREX_STATUS_OK ? new Writable(drive_, Normal(path), writer) : nullptr;
  return Translate(status, path);
}
#endif

bool ImbrexEnv::FileExists(const std::string& path) {
  imbrex_file_stat stat;
  return imbrex_stat(drive_->get(), path.c_str(), &stat) == IMBREX_STATUS_OK;
}

Status ImbrexEnv::GetChildren(const std::string& path, std::vector<std::string>* result) {
  result->clear();
  imbrex_names* names = nullptr;
  imbrex_status status = imbrex_list(drive_->get(), path.c_str(), &names);
  // As a listing of the host's directory begins with them.
  if (status == IMBREX_STATUS_OK) *result = {".", ".."};
  size_t count = status == IMBREX_STATUS_OK ? imbrex_names_count(names) : 0;
  for (size_t i = 0; i < count; i++) result->push_back(imbrex_names_get(names, i));
  if (status == IMBREX_STATUS_OK) imbrex_names_close(names);
  return Translate(status, path);
}

Status ImbrexEnv::IMBREX_REMOVE_FILE(const std::string& path) {
  imbrex_status status = imbrex_unlink(drive_->get(), path.c_str());
  if (status == IMBREX_STATUS_OK) LevelBook::Get().Deleted(Normal(path));
  return Translate(status, path);
}

Status ImbrexEnv::CreateDir(const std::string& path) {
  return Translate(imbrex_make_dir(drive_->get(), path.c_str(), true), path);
}

Status ImbrexEnv::IMBREX_REMOVE_DIR(const std::string& path) {
  return Translate(imbrex_remove_dir(drive_->get(), path.c_str()), path);
}

Status ImbrexEnv::GetFileSize(const std::string& path, uint64_t* size) {
  imbrex_file_stat stat;
  imbrex_status status = imbrex_stat(drive_->get(), path.c_str(), &stat);
  *size = status == IMBREX_STATUS_OK ? stat.len_bytes : 0;
  return Translate(status, path);
}

Status ImbrexEnv::RenameFile(const std::string& from, const std::string& to) {
  return Translate(imbrex_rename(drive_->get(), from.c_str(), to.c_str()), from);
}

Status ImbrexEnv::LockFile(const std::string& path, leveldb::FileLock** lock) {
  imbrex_status status = imbrex_lock(drive_->get(), path.c_str());
  *lock = status == IMBREX_STATUS_OK ? new Lock(path) : nullptr;
  return Translate(status, path);
}

Status ImbrexEnv::UnlockFile(leveldb::FileLock* lock) {
  std::unique_ptr<Lock> held(static_cast<Lock*>(lock));
  return Translate(imbrex_unlock(drive_->get(), held->path.c_str()), held->path);
}

Status ImbrexEnv::GetTestDirectory(std::string* path) {
  *path = "/leveldbtest";
  return CreateDir(*path);
}

Status ImbrexEnv::NewLogger(const std::string& path, leveldb::Logger** result) {
  imbrex_hints hints = HintsOf(path);
  imbrex_writer* writer = nullptr;
  imbrex_status status = imbrex_writer_create(drive_->get(), path.c_str(), &hints, &writer);
  *result = status == IMBREX_STATUS_OK ? new InfoLog(drive_, path, writer) : nullptr;
  return Translate(status, path);
}

}  // namespace imbrex_leveldb

namespace leveldb {

// Replaces LevelDB's own function, which every database calls for its files. With IMBREX_URI, which
// `imbrex run` sets, it returns the drive.
__attribute__((visibility("default"))) Env* Env::Default() {
  static Env* const env = []() -> Env* {
    Dl_info self;
    Env* (*real)() = nullptr;
    if (dladdr(reinterpret_cast<void*>(&Env::Default), &self) != 0) {
      real = reinterpret_cast<Env* (*)()>(dlsym(RTLD_NEXT, self.dli_sname));
    }
    if (real == nullptr) {
      fprintf(stderr, "imbrex: no Env::Default of LevelDB to stand before\n");
      exit(4);
    }
    const char* uri = getenv("IMBREX_URI");
    if (uri == nullptr) return real();
    std::string error;
    std::shared_ptr<imbrex_levels::Drive> drive = imbrex_levels::Drive::Open(uri, &error);
    if (drive == nullptr) {
      fprintf(stderr, "imbrex: %s\n", error.c_str());
      exit(4);
    }
    // Never destroyed, because LevelDB's thread outlives static destructors. The drive is synced at
    // exit.
    return new imbrex_leveldb::ImbrexEnv(real(), drive);
  }();
  return env;
}

}  // namespace leveldb
