package imbrex.ycsb;

/** A property, a rate or a file that gives no series; the message says what would. */
final class ArrivalException extends Exception {
  private static final long serialVersionUID = 1L;

  ArrivalException(String message) {
    super(message);
  }

  ArrivalException(String message, Throwable cause) {
    super(message, cause);
  }
}
