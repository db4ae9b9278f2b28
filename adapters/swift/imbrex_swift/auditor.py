"""Swift's object-auditor: ``imbrex-swift-object-auditor CONFIG [once]``.

It is Swift's own. It asks the manager of each policy for what is to be audited, and reads through the drive's daemon,
so a pass checks the checksums of the store, the metadata, the lengths and the etags. No other scrub is needed for
objects.
"""

from swift.obj.auditor import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
