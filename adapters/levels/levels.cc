#include "levels.h"

#include <vector>

namespace imbrex_levels {

LevelBook& LevelBook::Get() {
  // Never destroyed, because threads of RocksDB outlive static destructors.
  static LevelBook* book = new LevelBook();
  return *book;
}

void LevelBook::Expect(const std::string& path, int level, bool needed,
                       const std::string& called, uint32_t stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  Table& table = tables_[path];
  table.expected = level;
  table.stream = stream;
  table.needed = needed;
  table.flush = false;
  if (called.empty() || called == path) return;
  table.called = called;
  elsewhere_[called] = path;
}

void LevelBook::ExpectFlush(const std::string& path, bool needed) {
  std::lock_guard<std::mutex> lock(mutex_);
  Table& table = tables_[path];
  table.expected = 0;
  table.needed = needed;
  table.flush = true;
}

bool LevelBook::Needed(const std::string& path) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = tables_.find(path);
  return found != tables_.end() && found->second.needed;
}

void LevelBook::Created(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  Table& table = tables_[path];
  Table fresh;
  fresh.expected = table.expected;
  fresh.needed = table.needed;
  fresh.flush = table.flush;
  fresh.stream = table.stream;
  fresh.created = true;
  fresh.called = table.called;
  table = fresh;
}

Knowledge LevelBook::Known(const std::string& path, int guess) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = tables_.find(path);
  // A table that was deleted while it was being written is not remembered again.
  Table gone;
  Table& table = found == tables_.end() ? gone : found->second;
  bool told = table.expected >= 0;
  table.known = told ? table.expected : guess;
  return {table.known, table.needed || (!told && guess > 0), table.stream};
}

bool LevelBook::Truth(std::string* path, int level) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto elsewhere = elsewhere_.find(*path);
  if (elsewhere != elsewhere_.end()) *path = elsewhere->second;
  auto found = tables_.find(*path);
  // A table from before this process. The file layer knows its level best. It is not remembered,
  // because its path, and so the moment of its deletion, is not known.
  if (found == tables_.end()) return true;
  Table& table = found->second;
  if (table.level == level) return false;
  if (table.level >= 0) {
    if (table.created) counts_.moved++;
  } else if (table.created && table.flush) {
    counts_.flushed++;
  } else if (table.created) {
    counts_.tables++;
    if (table.known < 0) {
      counts_.unknown++;
    } else if (table.known != level) {
      counts_.wrong++;
    } else {
      counts_.right++;
      if (table.expected < 0) counts_.guessed++;
    }
  }
  // The level for the file layer: the one with which the table was placed, until another is set.
  int told = table.level < 0 ? table.known : table.told;
  table.level = level;
  table.told = level;
  return told != level;
}

void LevelBook::Deleted(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = tables_.find(path);
  if (found == tables_.end()) return;
  if (!found->second.called.empty()) elsewhere_.erase(found->second.called);
  tables_.erase(found);
}

void LevelBook::Renamed(const std::string& from, const std::string& to) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = tables_.find(from);
  if (found == tables_.end()) return;
  Table table = found->second;
  tables_.erase(found);
  tables_[to] = table;
}

Counts LevelBook::counts() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

size_t LevelBook::size() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return tables_.size() + elsewhere_.size();
}

std::string Normal(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= path.size();) {
    size_t end = path.find('/', at);
    if (end == std::string::npos) end = path.size();
    std::string part = path.substr(at, end - at);
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
    at = end + 1;
  }
  std::string normal;
  for (const std::string& part : parts) normal += "/" + part;
  return normal.empty() ? "/" : normal;
}

}  // namespace imbrex_levels
