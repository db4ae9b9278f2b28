"""Object servers of OpenStack Swift 2.38 on drives of Imbrex.

    object-server, replicator, reconstructor, auditor, updater        Swift's own code
                |  DiskFileManager                                     diskfile, ec_diskfile, tree
            client                                                     one pool of sockets for each drive
                |  frames over a Unix socket                           wire
         imbrex-swift-drive                                            drive, service: one process for each drive
                |  Objects
             imbrex                                                    the store on the drive

The key of an object is the path that the file would have on a file system, without the device:
``objects-1/30/179/485d...7179/1401811134.87364.data``. Nothing here walks directories: partitions, suffixes and
hashes are ranges of keys.

Swift's rules decide what files mean: names, timestamps, what is obsolete, what a suffix hashes to. This package asks
them, and does what they answer in one batch of the store.
"""

__version__ = "0.1.0"
