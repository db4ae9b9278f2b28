package imbrex.ycsb;

/** What a call of the C API said that did not succeed. */
final class StoreException extends Exception {
  private static final long serialVersionUID = 1L;

  private final int status;

  StoreException(int status, String message) {
    super(message);
    this.status = status;
  }

  /** What the call returned, one of the constants of {@link StoreLibrary}. */
  int status() {
    return status;
  }

  /** Whether only this operation failed, and the next may not. */
  boolean isRefusal() {
    return status == StoreLibrary.INVALID || status == StoreLibrary.CORRUPT;
  }
}
