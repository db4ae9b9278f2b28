// RocksDB's FileSystem on a drive: imbrex://DRIVE?layout=NAME.
//
// The drive has its own paths: RocksDB's "/tmp/db" is the drive's "/tmp/db". Directories above a
// database are created as needed, because a new drive has none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "files.h"
#include "rocksdb/file_system.h"

namespace imbrex_rocksdb {

using ROCKSDB_NAMESPACE::FileLock;
using ROCKSDB_NAMESPACE::FileOptions;
using ROCKSDB_NAMESPACE::FileSystem;

class ImbrexFileSystem : public FileSystem {
 public:
  ImbrexFileSystem(std::string uri, std::shared_ptr<Drive> drive)
      : uri_(std::move(uri)), drive_(std::move(drive)) {}

  static const char* kClassName() { return "imbrex"; }
  const char* Name() const override { return kClassName(); }
  std::string GetId() const override { return uri_; }
  bool IsInstanceOf(const std::string& name) const override {
    return name == kClassName() || FileSystem::IsInstanceOf(name);
  }

  IOStatus NewSequentialFile(const std::string&, const FileOptions&,
                             std::unique_ptr<FSSequentialFile>*, IODebugContext*) override;
  IOStatus NewRandomAccessFile(const std::string&, const FileOptions&,
                               std::unique_ptr<FSRandomAccessFile>*, IODebugContext*) override;
  IOStatus NewWritableFile(const std::string&, const FileOptions&,
                           std::unique_ptr<FSWritableFile>*, IODebugContext*) override;
  IOStatus ReopenWritableFile(const std::string&, const FileOptions&,
                              std::unique_ptr<FSWritableFile>*, IODebugContext*) override;
  IOStatus NewRandomRWFile(const std::string&, const FileOptions&,
                           std::unique_ptr<FSRandomRWFile>*, IODebugContext*) override;
  IOStatus NewDirectory(const std::string&, const IOOptions&, std::unique_ptr<FSDirectory>*,
                        IODebugContext*) override;
  IOStatus FileExists(const std::string&, const IOOptions&, IODebugContext*) override;
  IOStatus GetChildren(const std::string&, const IOOptions&, std::vector<std::string>*,
                       IODebugContext*) override;
  IOStatus DeleteFile(const std::string&, const IOOptions&, IODebugContext*) override;
  IOStatus Truncate(const std::string&, size_t, const IOOptions&, IODebugContext*) override;
  IOStatus CreateDir(const std::string&, const IOOptions&, IODebugContext*) override;
  IOStatus CreateDirIfMissing(const std::string&, const IOOptions&, IODebugContext*) override;
  IOStatus DeleteDir(const std::string&, const IOOptions&, IODebugContext*) override;
  IOStatus GetFileSize(const std::string&, const IOOptions&, uint64_t*, IODebugContext*) override;
  IOStatus GetFileModificationTime(const std::string&, const IOOptions&, uint64_t*,
                                   IODebugContext*) override;
  IOStatus RenameFile(const std::string&, const std::string&, const IOOptions&,
                      IODebugContext*) override;
  IOStatus LinkFile(const std::string&, const std::string&, const IOOptions&,
                    IODebugContext*) override;
  IOStatus NumFileLinks(const std::string&, const IOOptions&, uint64_t*, IODebugContext*) override;
  IOStatus AreFilesSame(const std::string&, const std::string&, const IOOptions&, bool*,
                        IODebugContext*) override;
  IOStatus LockFile(const std::string&, const IOOptions&, FileLock**, IODebugContext*) override;
  IOStatus UnlockFile(FileLock*, const IOOptions&, IODebugContext*) override;
  IOStatus GetTestDirectory(const IOOptions&, std::string*, IODebugContext*) override;
  IOStatus GetAbsolutePath(const std::string&, const IOOptions&, std::string*,
                           IODebugContext*) override;
  IOStatus GetFreeSpace(const std::string&, const IOOptions&, uint64_t*, IODebugContext*) override;
  IOStatus IsDirectory(const std::string&, const IOOptions&, bool*, IODebugContext*) override;

 private:
  IOStatus Stat(const std::string& path, imbrex_file_stat* stat);
  IOStatus OpenWriter(const std::string& path, bool append, imbrex_writer** writer);

  std::string uri_;
  std::shared_ptr<Drive> drive_;
};

// The file system of a URI.
IOStatus OpenFileSystem(const std::string& uri, std::unique_ptr<FileSystem>* result);

}  // namespace imbrex_rocksdb
