// LevelDB's Env on a drive: files on the drive, threads and time from the real Env.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../levels/drive.h"
#include "leveldb/env.h"

namespace imbrex_leveldb {

class ImbrexEnv : public leveldb::EnvWrapper {
 public:
  ImbrexEnv(leveldb::Env* real, std::shared_ptr<imbrex_levels::Drive> drive)
      : leveldb::EnvWrapper(real), drive_(std::move(drive)) {}

  leveldb::Status NewSequentialFile(const std::string&, leveldb::SequentialFile**) override;
  leveldb::Status NewRandomAccessFile(const std::string&, leveldb::RandomAccessFile**) override;
  leveldb::Status NewWritableFile(const std::string&, leveldb::WritableFile**) override;
  leveldb::Status NewAppendableFile(const std::string&, leveldb::WritableFile**) override;
  bool FileExists(const std::string&) override;
  leveldb::Status GetChildren(const std::string&, std::vector<std::string>*) override;
  leveldb::Status RemoveFile(const std::string&) override;
  leveldb::Status CreateDir(const std::string&) override;
  leveldb::Status RemoveDir(const std::string&) override;
  leveldb::Status GetFileSize(const std::string&, uint64_t*) override;
  leveldb::Status RenameFile(const std::string&, const std::string&) override;
  leveldb::Status LockFile(const std::string&, leveldb::FileLock**) override;
  leveldb::Status UnlockFile(leveldb::FileLock*) override;
  leveldb::Status GetTestDirectory(std::string*) override;
  leveldb::Status NewLogger(const std::string&, leveldb::Logger**) override;

 private:
  std::shared_ptr<imbrex_levels::Drive> drive_;
};

}  // namespace imbrex_leveldb
