#include "info_log.h"

#include <sys/time.h>

#include <cstdio>
#include <ctime>
#include <set>
#include <vector>

#include "../levels/levels.h"

namespace imbrex_leveldb {
namespace {

using imbrex_levels::LevelBook;
using imbrex_levels::Normal;

// The level that this thread's compaction writes, or -1. Tables that it flushes in between.
thread_local int compacting_to = -1;
thread_local std::set<std::string> flushed;
// Whether this thread opens databases. Other threads flush data that is written later.
thread_local bool recovering = false;

std::string Formatted(const char* format, std::va_list arguments) {
  std::va_list again;
  va_copy(again, arguments);
  char small[512];
  int size = vsnprintf(small, sizeof small, format, arguments);
  std::string text;
  if (size >= static_cast<int>(sizeof small)) {
    std::vector<char> large(static_cast<size_t>(size) + 1);
    vsnprintf(large.data(), large.size(), format, again);
    text = large.data();
  } else if (size > 0) {
    text = small;
  }
  va_end(again);
  return text;
}

void Learn(const std::string& directory, const std::string& line) {
  int count, level, more, output;
  unsigned long long number;
  if (sscanf(line.c_str(), "Compacting %d@%d + %d@%d files", &count, &level, &more, &output) == 4) {
    compacting_to = output;
  } else if (line.compare(0, 10, "Compacted ") == 0) {
    compacting_to = -1;
  } else if (line.find(": started") != std::string::npos &&
             sscanf(line.c_str(), "Level-0 table #%llu", &number) == 1) {
    flushed.insert(TablePath(directory, number));
  }
}

}  // namespace

std::string TablePath(const std::string& directory, uint64_t number) {
  char name[32];
  snprintf(name, sizeof name, "/%06llu" IMBREX_TABLE_SUFFIX, static_cast<unsigned long long>(number));
  return Normal(directory + name);
}

void LogRead() { recovering = true; }

void TableCreated(const std::string& path) {
  LevelBook& book = LevelBook::Get();
  if (flushed.erase(path) > 0 || recovering) {
    // Data flushed from the logs of an opening must be written before anything can be deleted.
    book.ExpectFlush(path, recovering);
  } else if (compacting_to >= 0) {
    book.Expect(path, compacting_to, true);
  }
  book.Created(path);
}

InfoLog::InfoLog(std::shared_ptr<imbrex_levels::Drive> drive, const std::string& path,
                 imbrex_writer* writer)
    : drive_(std::move(drive)), directory_(path.substr(0, path.rfind('/'))), writer_(writer) {}

InfoLog::~InfoLog() { imbrex_writer_close(writer_); }

void InfoLog::Logv(const char* format, std::va_list arguments) {
  std::string line = Formatted(format, arguments);
  Learn(directory_, line);
  struct timeval now;
  struct tm local;
  gettimeofday(&now, nullptr);
  localtime_r(&now.tv_sec, &local);
  char stamp[64];
  size_t size = strftime(stamp, sizeof stamp, "%Y/%m/%d-%H:%M:%S", &local);
  snprintf(stamp + size, sizeof stamp - size, ".%06d ", static_cast<int>(now.tv_usec));
  line = stamp + line;
  if (line.back() != '\n') line += '\n';
  // A log that cannot be written stops nothing, as in LevelDB.
  imbrex_writer_append(writer_, reinterpret_cast<const uint8_t*>(line.data()), line.size());
}

}  // namespace imbrex_leveldb
