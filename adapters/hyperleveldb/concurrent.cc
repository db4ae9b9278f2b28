// What HyperLevelDB's Env has beyond LevelDB's: files that threads write at their own offsets,
// copies and links.
//
// Its log writer reserves a range of the file by moving a counter. It then writes the record's
// headers (7 bytes) and payloads there with WriteAt, each once, without a lock. The file therefore
// arrives in any order, and a Sync may find a range that another thread has yet to write.
// imbrex_writer_fill_at() puts the ranges in order, and the Sync waits for that. Otherwise
// HyperLevelDB's reader would lose a record behind a hole, because it skips the rest of a 32 KiB
// block at zeros.
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../leveldb/env.h"
#include "../leveldb/names.h"
#include "../levels/levels.h"

namespace imbrex_leveldb {
namespace {

using imbrex_levels::Drive;
using imbrex_levels::ManifestReader;
using imbrex_levels::Normal;
using leveldb::Slice;
using leveldb::Status;

// log_format.h
constexpr uint64_t kBlockSize = 32768;
constexpr uint64_t kHeaderSize = 7;

// An empty first fragment: masked crc32c of the type, length 0, type 2. Readers ignore it, because
// an old version of LevelDB's writer left such fragments.
constexpr char kEmptyFirst[] = "\x64\x51\xd0\xe9\x00\x00\x02";

const uint8_t* Bytes(const Slice& data) { return reinterpret_cast<const uint8_t*>(data.data()); }

// The payload that this thread's last header announced.
struct Announced {
  const void* file;
  uint64_t offset;
};
thread_local Announced announced = {nullptr, 0};

class Concurrent : public leveldb::ConcurrentWritableFile {
 public:
  Concurrent(std::shared_ptr<Drive> drive, std::string path, imbrex_writer* writer)
      : drive_(std::move(drive)), path_(std::move(path)), writer_(writer) {
    is_log_ = IsLog(path_) || IsManifest(path_);
    manifest_ = ReadManifest(drive_, path_, writer_);
  }
  ~Concurrent() override {
    if (writer_ != nullptr) Close();
  }

  Status WriteAt(uint64_t offset, const Slice& data) override {
    if (is_log_) FillSkipped(offset, data.size());
    uint64_t end = offset + data.size();
    for (uint64_t seen = end_.load(); seen < end && !end_.compare_exchange_weak(seen, end);) {
    }
    imbrex_status status = imbrex_writer_fill_at(writer_, offset, Bytes(data), data.size());
    if (status == IMBREX_STATUS_OK && manifest_ != nullptr) Learn(offset, data);
    return Translate(status, path_);
  }

  Status Append(const Slice& data) override { return WriteAt(end_.fetch_add(data.size()), data); }

  // Written data is readable, except behind a hole; Flush promises no more.
  Status Flush() override { return Status::OK(); }

  Status Sync() override { return Translate(imbrex_writer_sync(writer_), path_); }

  Status Close() override {
    imbrex_writer* writer = writer_;
    writer_ = nullptr;
    return Translate(imbrex_writer_close(writer), path_);
  }

 private:
  // A record that ends with a whole block moves the counter 7 bytes too far, and those bytes are
  // never written. A header at byte 7 of a block shows that this happened, because no record is
  // short enough to begin there. HyperLevelDB's own Env leaves zeros, and recovery loses the rest
  // of the block.
  void FillSkipped(uint64_t offset, size_t size) {
    if (announced.file == this && announced.offset == offset) {
      announced.file = nullptr;
      return;
    }
    if (size != kHeaderSize) return;
    announced = {this, offset + kHeaderSize};
    if (offset % kBlockSize != kHeaderSize) return;
    Slice empty(kEmptyFirst, kHeaderSize);
    // Refused if the bytes are there already. Then nothing is missing.
    imbrex_status status =
        imbrex_writer_fill_at(writer_, offset - kHeaderSize, Bytes(empty), kHeaderSize);
    if (status == IMBREX_STATUS_OK && manifest_ != nullptr) Learn(offset - kHeaderSize, empty);
  }

  // The MANIFEST is read in order, while it is written.
  void Learn(uint64_t offset, const Slice& data) {
    std::lock_guard<std::mutex> lock(mutex_);
    early_[offset] = data.ToString();
    for (auto next = early_.begin(); next != early_.end() && next->first == learned_;
         next = early_.erase(next)) {
      manifest_->Append(next->second.data(), next->second.size());
      learned_ += next->second.size();
    }
  }

  std::shared_ptr<Drive> drive_;
  std::string path_;
  imbrex_writer* writer_;
  bool is_log_;
  std::atomic<uint64_t> end_{0};

  std::mutex mutex_;  // of what follows
  std::unique_ptr<ManifestReader> manifest_;
  std::map<uint64_t, std::string> early_;
  uint64_t learned_ = 0;
};

}  // namespace

Status ImbrexEnv::NewConcurrentWritableFile(const std::string& path,
                                            leveldb::ConcurrentWritableFile** result) {
  imbrex_hints hints = HintsOf(path);
  imbrex_writer* writer = nullptr;
  imbrex_status status = imbrex_writer_create(drive_->get(), path.c_str(), &hints, &writer);
  *result = status == IMBREX_STATUS_OK ? new Concurrent(drive_, Normal(path), writer) : nullptr;
  return Translate(status, path);
}

Status ImbrexEnv::CopyFile(const std::string& from, const std::string& to) {
  imbrex_reader* reader = nullptr;
  imbrex_status status = imbrex_reader_open(drive_->get(), from.c_str(), &reader);
  if (status != IMBREX_STATUS_OK) return Translate(status, from);
  imbrex_hints hints = HintsOf(to);
  imbrex_writer* writer = nullptr;
  status = imbrex_writer_create(drive_->get(), to.c_str(), &hints, &writer);
  Status result = Translate(status, to);
  std::vector<uint8_t> buffer(128 << 10);
  uint64_t offset = 0;
  for (size_t got = buffer.size(); result.ok() && got == buffer.size(); offset += got) {
    status = imbrex_reader_read_at(reader, offset, buffer.data(), buffer.size(), &got);
    result = Translate(status, from);
    if (!result.ok()) break;
    result = Translate(imbrex_writer_append(writer, buffer.data(), got), to);
  }
  imbrex_reader_close(reader);
  if (writer != nullptr) {
    Status closed = Translate(imbrex_writer_close(writer), to);
    if (result.ok()) result = closed;
  }
  return result;
}

Status ImbrexEnv::LinkFile(const std::string& from, const std::string& to) {
  return Translate(imbrex_link(drive_->get(), from.c_str(), to.c_str()), from);
}

}  // namespace imbrex_leveldb
