// A drive of this process, found by its URI and synced before the process ends.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>

#include "imbrex.h"

namespace imbrex_levels {

// imbrex://DRIVE?layout=NAME, or without the layout. For tests, an emulated drive that loses its
// power: imbrex://DRIVE?layout=NAME&cut-after=EVENTS&cut-seed=SEED&cache=BYTES, see
// imbrex_drive_open_for_power_cut().
struct Uri {
  std::string image;
  std::string layout;
  bool has_cut = false;
  imbrex_power_cut cut = {0, 0, 16 << 20};
};
bool ParseUri(const std::string& text, Uri* uri);

// An open drive. Closed together with the last file or file system on it.
class Drive {
 public:
  // Null if it cannot be opened. imbrex_last_error() says why, or `error` if the URI is invalid.
  static std::shared_ptr<Drive> Open(const std::string& uri, std::string* error);
  ~Drive();

  Drive(const Drive&) = delete;
  Drive& operator=(const Drive&) = delete;

  imbrex_drive* get() const { return drive_; }

  // A MANIFEST names `table`, which it expects in its own directory, at `level`.
  void SetLevel(const std::string& table, int level);

  // Whether this process opened it. False in a child forked since then.
  bool IsOpeners() const;

 private:
  Drive(imbrex_drive* drive, uint64_t number) : drive_(drive), number_(number), pid_(getpid()) {}

  imbrex_drive* drive_;
  uint64_t number_;  // among those that this process has opened
  pid_t pid_;
};

}  // namespace imbrex_levels
