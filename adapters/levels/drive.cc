#include "drive.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "levels.h"

namespace imbrex_levels {
namespace {

// The open drives of this process, for the exit, in the order of opening. A program may open the
// drive of IMBREX_URI, and others or the same again by their URIs. Never destroyed, because drives
// may be used after static destructors.
struct Living {
  std::mutex mutex;
  std::map<uint64_t, std::weak_ptr<Drive>> drives;  // by their numbers
  uint64_t opened = 0;
};

Living& TheLiving() {
  static Living* living = new Living();
  return *living;
}

// Writes the counts to the file named by IMBREX_REPORT, as one JSON object.
void Report(imbrex_drive* drive) {
  const char* path = getenv("IMBREX_REPORT");
  if (path == nullptr) return;
  imbrex_drive_stats stats;
  if (imbrex_drive_get_stats(drive, &stats) != IMBREX_STATUS_OK) return;
  FILE* out = fopen(path, "w");
  if (out == nullptr) return;
  Counts counts = LevelBook::Get().counts();
  const std::pair<const char*, uint64_t> numbers[] = {
      {"tables", counts.tables},
      {"right", counts.right},
      {"wrong", counts.wrong},
      {"unknown", counts.unknown},
      {"guessed", counts.guessed},
      {"flushed", counts.flushed},
      {"moved", counts.moved},
      {"kept_in_mind", LevelBook::Get().size()},
      {"capacity_bytes", stats.capacity_bytes},
      {"live_bytes", stats.live_bytes},
      {"dead_bytes", stats.dead_bytes},
      {"free_bytes", stats.free_bytes},
      {"reads", stats.reads},
      {"writes", stats.writes},
      {"flushes", stats.flushes},
      {"seeks", stats.seeks},
      {"read_bytes", stats.read_bytes},
      {"written_bytes", stats.written_bytes},
      {"added_read_bytes", stats.added_read_bytes},
      {"added_written_bytes", stats.added_written_bytes},
      {"busy_ns", stats.busy_ns},
      {"file_written_bytes", stats.file_written_bytes},
      {"catalog_written_bytes", stats.catalog_written_bytes},
      {"commits", stats.commits},
      {"cleaned_zones", stats.cleaned_zones},
      {"cleaning_moved_bytes", stats.cleaning_moved_bytes},
      {"reset_zones", stats.reset_zones},
      {"rewritten_tracks", stats.rewritten_tracks},
      {"rewritten_bytes", stats.rewritten_bytes},
      {"track_syncs", stats.track_syncs},
  };
  const char* before = "{";
  for (const auto& number : numbers) {
    fprintf(out, "%s\"%s\":%" PRIu64, before, number.first, number.second);
    before = ",";
  }
  fputs("}\n", out);
  fclose(out);
}

// Syncs a drive for a program that no longer checks the result.
void LastSync(imbrex_drive* drive) {
  if (imbrex_drive_sync(drive) != IMBREX_STATUS_OK) {
    fprintf(stderr, "imbrex: cannot sync the drive at the end: %s\n", imbrex_last_error());
  }
  Report(drive);
}

// Databases keep file systems in static objects, whose destructors may run too late or never.
void AtExit() {
  std::vector<std::shared_ptr<Drive>> drives;
  {
    std::lock_guard<std::mutex> lock(TheLiving().mutex);
    for (const auto& drive : TheLiving().drives) drives.push_back(drive.second.lock());
  }
  for (const std::shared_ptr<Drive>& drive : drives) {
    // A closed drive has synced itself. A forked child holds a copy of its parent's unwritten data,
    // and writing it would write it twice.
    if (drive != nullptr && drive->IsOpeners()) LastSync(drive->get());
  }
}

// Parses one parameter of a URI into `uri`. False if it is not valid.
bool ParseParameter(const std::string& text, Uri* uri) {
  // RocksDB parses a text with one '=' as an option and its value, so ':' is accepted too.
  size_t sign = text.find_first_of("=:");
  if (sign == std::string::npos || sign + 1 == text.size()) return false;
  std::string key = text.substr(0, sign), value = text.substr(sign + 1);
  if (key == "layout") {
    uri->layout = value;
    return true;
  }
  char* end = nullptr;
  uint64_t number = strtoull(value.c_str(), &end, 10);
  if (*end != '\0') return false;
  if (key == "cut-after") {
    uri->cut.after_event_count = number;
    uri->has_cut = true;
  } else if (key == "cut-seed") {
    uri->cut.seed = number;
  } else if (key == "cache") {
    uri->cut.cache_bytes = number;
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool ParseUri(const std::string& text, Uri* uri) {
  const std::string scheme = "imbrex://";
  if (text.compare(0, scheme.size(), scheme) != 0) return false;
  size_t question = text.find('?', scheme.size());
  *uri = Uri();
  uri->image = text.substr(scheme.size(), question - scheme.size());
  while (question != std::string::npos) {
    size_t end = text.find('&', question + 1);
    if (!ParseParameter(text.substr(question + 1, end - question - 1), uri)) return false;
    question = end;
  }
  return !uri->image.empty();
}

std::shared_ptr<Drive> Drive::Open(const std::string& text, std::string* error) {
  Uri uri;
  if (!ParseUri(text, &uri)) {
    *error = text + " is not imbrex://DRIVE or imbrex://DRIVE?layout=NAME";
    return nullptr;
  }
  imbrex_drive* opened = nullptr;
  const char* layout = uri.layout.empty() ? nullptr : uri.layout.c_str();
  imbrex_status status =
      uri.has_cut ? imbrex_drive_open_for_power_cut(uri.image.c_str(), layout, &uri.cut, &opened)
                  : imbrex_drive_open(uri.image.c_str(), layout, &opened);
  if (status != IMBREX_STATUS_OK) {
    *error = imbrex_last_error();
    return nullptr;
  }
  Living& living = TheLiving();
  std::lock_guard<std::mutex> lock(living.mutex);
  if (living.opened++ == 0) atexit(AtExit);
  std::shared_ptr<Drive> drive(new Drive(opened, living.opened));
  living.drives[living.opened] = drive;
  return drive;
}

void Drive::SetLevel(const std::string& table, int level) {
  // A directory without a CURRENT is no database but a checkpoint's copy. It repeats all past
  // levels of tables that the checkpoint shares with the database.
  std::string current = table.substr(0, table.rfind('/') + 1) + "CURRENT";
  imbrex_file_stat stat;
  if (imbrex_stat(drive_, current.c_str(), &stat) != IMBREX_STATUS_OK) return;
  std::string path = table;
  if (!LevelBook::Get().Truth(&path, level)) return;
  // The table may be gone already; the file layer checks that.
  imbrex_set_level(drive_, path.c_str(), static_cast<uint8_t>(level));
}

bool Drive::IsOpeners() const { return getpid() == pid_; }

Drive::~Drive() {
  if (!IsOpeners()) return;
  {
    std::lock_guard<std::mutex> lock(TheLiving().mutex);
    TheLiving().drives.erase(number_);
  }
  LastSync(drive_);
  imbrex_drive_close(drive_);
}

}  // namespace imbrex_levels
