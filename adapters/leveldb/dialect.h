// Differences between LevelDB and its fork HyperLevelDB. Both use one namespace; the adapters'
// Makefiles select the library.
#pragma once

#ifdef IMBREX_HYPERLEVELDB
#include "hyperleveldb/env.h"
#include "hyperleveldb/slice.h"
#define IMBREX_REMOVE_FILE DeleteFile
#define IMBREX_REMOVE_DIR DeleteDir
#define IMBREX_TABLE_SUFFIX ".sst"
#else
#include "leveldb/env.h"
#define IMBREX_REMOVE_FILE RemoveFile
#define IMBREX_REMOVE_DIR RemoveDir
#define IMBREX_TABLE_SUFFIX ".ldb"
#endif
