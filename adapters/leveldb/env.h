// LevelDB's or HyperLevelDB's Env on a drive: files on the drive, threads and time from the real Env.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../levels/drive.h"
#include "dialect.h"

namespace imbrex_leveldb {

class ImbrexEnv : public leveldb::EnvWrapper {
 public:
  ImbrexEnv(leveldb::Env* real, std::shared_ptr<imbrex_levels::Drive> drive)
      : leveldb::EnvWrapper(real), drive_(std::move(drive)) {}

  leveldb::Status NewSequentialFile(const std::string&, leveldb::SequentialFile**) override;
  leveldb::Status NewRandomAccessFile(const std::string&, leveldb::RandomAccessFile**) override;
  leveldb::Status NewWritableFile(const std::string&, leveldb::WritableFile**) override;
#ifdef IMBREX_HYPERLEVELDB
  leveldb::Status NewConcurrentWritableFile(const std::string&,
                                            leveldb::ConcurrentWritableFile**) override;
  leveldb::Status CopyFile(const std::string&, const std::string&) override;
  leveldb::Status LinkFile(const std::string&, const std::string&) override;
#else
  leveldb::Status NewAppendableFile(const std::string&, leveldb::WritableFile**) override;
#endif
  bool FileExists(const std::string&) override;
  leveldb::Status GetChildren(const std::string&, std::vector<std::string>*) override;
  leveldb::Status IMBREX_REMOVE_FILE(const std::string&) override;
  leveldb::Status CreateDir(const std::string&) override;
  leveldb::Status IMBREX_REMOVE_DIR(const std::string&) override;
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
