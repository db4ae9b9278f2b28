package imbrex.ycsb;

/** The message of a failed call of the C API. */
final class StoreException extends Exception {
  private static final long serialVersionUID = 1L;

  private final int status;

  StoreException(int status, String message) {
    super(message);
    this.status = status;
  }

  /** The call's result, one of the constants of {@link StoreLibrary}. */
  int status() {
    return status;
  }

  /** Whether only this operation failed, so that the next may succeed. */
  boolean isRefusal() {
    return status == StoreLibrary.INVALID || status == StoreLibrary.CORRUPT;
  }
}
