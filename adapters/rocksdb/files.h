// RocksDB's open files over readers and writers of the C API. They translate, and hold only the
// state that a call needs.
#pragma once

#include <memory>
#include <string>

#include "../levels/drive.h"
#include "../levels/levels.h"
#include "../levels/manifest.h"
#include "rocksdb/io_status.h"
#include "rocksdb/file_system.h"

namespace imbrex_rocksdb {

using ROCKSDB_NAMESPACE::DataVerificationInfo;
using ROCKSDB_NAMESPACE::Env;
using ROCKSDB_NAMESPACE::FSDirectory;
using ROCKSDB_NAMESPACE::FSRandomAccessFile;
using ROCKSDB_NAMESPACE::FSRandomRWFile;
using ROCKSDB_NAMESPACE::FSSequentialFile;
using ROCKSDB_NAMESPACE::FSWritableFile;
using ROCKSDB_NAMESPACE::IODebugContext;
using ROCKSDB_NAMESPACE::IOOptions;
using ROCKSDB_NAMESPACE::IOStatus;
using ROCKSDB_NAMESPACE::Slice;

using imbrex_levels::Drive;
using imbrex_levels::Knowledge;
using imbrex_levels::LevelBook;
using imbrex_levels::ManifestReader;
using imbrex_levels::Normal;

// The status of a call on the file `path`, for RocksDB.
IOStatus Translate(imbrex_status status, const std::string& path);

// The kind of file, from its name.
enum class FileClass { kTable, kWal, kManifest, kInfoLog, kMetadata, kOther };
FileClass ClassOf(const std::string& path);
imbrex_hints HintsOf(FileClass file_class);

// An open reader that closes itself.
class ReaderHandle {
 public:
  static IOStatus Open(const std::shared_ptr<Drive>& drive, const std::string& path,
                       std::unique_ptr<ReaderHandle>* result);
  ~ReaderHandle() { imbrex_reader_close(reader_); }

  ReaderHandle(const ReaderHandle&) = delete;
  ReaderHandle& operator=(const ReaderHandle&) = delete;

  IOStatus Read(uint64_t offset, size_t n, Slice* result, char* scratch) const;
  size_t UniqueId(char* id, size_t max_size) const;

 private:
  ReaderHandle(std::shared_ptr<Drive> drive, std::string path, imbrex_reader* reader)
      : drive_(std::move(drive)), path_(std::move(path)), reader_(reader) {}

  std::shared_ptr<Drive> drive_;
  std::string path_;
  imbrex_reader* reader_;
};

class SequentialFile : public FSSequentialFile {
 public:
  explicit SequentialFile(std::unique_ptr<ReaderHandle> reader) : reader_(std::move(reader)) {}

  IOStatus Read(size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) override;
  IOStatus Skip(uint64_t n) override;
  IOStatus PositionedRead(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                          IODebugContext*) override;
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  std::unique_ptr<ReaderHandle> reader_;
  uint64_t offset_ = 0;
};

class RandomAccessFile : public FSRandomAccessFile {
 public:
  explicit RandomAccessFile(std::unique_ptr<ReaderHandle> reader) : reader_(std::move(reader)) {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override;
  size_t GetUniqueId(char* id, size_t max_size) const override;
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  std::unique_ptr<ReaderHandle> reader_;
};

class WritableFile : public FSWritableFile {
 public:
  // `writer` is open; `path` is normalised.
  WritableFile(std::shared_ptr<Drive> drive, std::string path, imbrex_writer* writer);
  ~WritableFile() override;

  IOStatus Append(const Slice& data, const IOOptions&, IODebugContext*) override;
  IOStatus Append(const Slice& data, const IOOptions& options, const DataVerificationInfo&,
                  IODebugContext* dbg) override {
    return Append(data, options, dbg);
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions&,
                            IODebugContext*) override;
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            const DataVerificationInfo&, IODebugContext* dbg) override {
    return PositionedAppend(data, offset, options, dbg);
  }
  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override;
  // Appended data is readable at once. Only a sync makes it durable.
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus RangeSync(uint64_t, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }
  IOStatus Sync(const IOOptions&, IODebugContext*) override;
  IOStatus Close(const IOOptions&, IODebugContext*) override;
  bool IsSyncThreadSafe() const override { return true; }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override;
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  // Passes the table's level, as far as it is known, to the file layer, just before its last piece
  // is placed.
  void TellLevel();
  // The same before the first append, because a long table is placed in pieces while it is written.
  void TellLevelOnce();
  void MindManifest(const Slice& data);

  std::shared_ptr<Drive> drive_;
  std::string path_;
  imbrex_writer* writer_;
  FileClass class_;
  bool told_ = false;
  std::unique_ptr<ManifestReader> manifest_;
};

class RandomRWFile : public FSRandomRWFile {
 public:
  RandomRWFile(std::string path, imbrex_writer* writer, std::unique_ptr<ReaderHandle> reader)
      : path_(std::move(path)), writer_(writer), reader_(std::move(reader)) {}
  ~RandomRWFile() override { imbrex_writer_close(writer_); }

  IOStatus Write(uint64_t offset, const Slice& data, const IOOptions&, IODebugContext*) override;
  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override;
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override;
  IOStatus Close(const IOOptions&, IODebugContext*) override;

 private:
  std::string path_;
  imbrex_writer* writer_;
  std::unique_ptr<ReaderHandle> reader_;
};

class Directory : public FSDirectory {
 public:
  Directory(std::shared_ptr<Drive> drive, std::string path)
      : drive_(std::move(drive)), path_(std::move(path)) {}

  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    return Translate(imbrex_sync_names(drive_->get()), path_);
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

 private:
  std::shared_ptr<Drive> drive_;
  std::string path_;
};

}  // namespace imbrex_rocksdb
