// LevelDB's info log, written to the drive, and read on the way: it is where LevelDB tells levels.
//
//   "Level-0 table #N: started"           table N is a flush: level 0 to 2, decided when it is written
//   "Compacting a@L + b@L+1 files"         what this thread creates from here on is of level L+1
//   "Compacted ..."                       until here
//
// A thread that reads a write-ahead log opens a database, and flushes what its logs hold: that shows without an info
// log, which a program may have of its own (Options::info_log).
//
// Kept per thread: two databases of a process share LevelDB's thread that compacts, one after the other;
// HyperLevelDB has a thread to flush and one to compact for each.
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

// A table is about to be created at `path`, by this thread: tells the book what the info log said about it.
void TableCreated(const std::string& path);

// "/db/000012.ldb", in HyperLevelDB "/db/000012.sst"
std::string TablePath(const std::string& directory, uint64_t number);

}  // namespace imbrex_leveldb
