"""Swift's object-server: ``imbrex-swift-object-server CONFIG``.

It is Swift's own; ``diskfile_module`` of each policy in ``swift.conf`` decides where objects lie.
"""

from swift.obj.server import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
