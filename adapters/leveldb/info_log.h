// LevelDB's info log, written to the drive and parsed on the way, because it is where LevelDB
// reports levels.
//
//   "Level-0 table #N: started"           table N is a flush: level 0 to 2, decided after it is written
//   "Compacting a@L + b@L+1 files"         from here on this thread creates tables of level L+1
//   "Compacted ..."                       up to here
//
// A thread that reads a write-ahead log opens a database and flushes the content of its logs. That
// is visible without an info log, which a program may replace by its own (Options::info_log).
//
// State is kept per thread. Two databases of a process share LevelDB's single compaction thread,
// one after the other. HyperLevelDB has a flush thread and a compaction thread for each.
#pragma once

#include <cstdarg>
#include <memory>
#include <string>

#include "../levels/drive.h"
#include "dialect.h"

namespace imbrex_leveldb {

class InfoLog : public leveldb::Logger {
 public:
  // `writer` is the log's file, open; `path` its path.
  InfoLog(std::shared_ptr<imbrex_levels::Drive> drive, const std::string& path,
          imbrex_writer* writer);
  ~InfoLog() override;

  void Logv(const char* format, std::va_list arguments) override;

 private:
  std::shared_ptr<imbrex_levels::Drive> drive_;
  std::string directory_;
  imbrex_writer* writer_;
};

// This thread begins to read a write-ahead log.
void LogRead();

// This thread is about to create a table at `path`: records what the info log said about it.
void TableCreated(const std::string& path);

// "/db/000012.ldb", in HyperLevelDB "/db/000012.sst"
std::string TablePath(const std::string& directory, uint64_t number);

}  // namespace imbrex_leveldb
