package imbrex.ycsb;

/** A property, a rate or a file that defines no series. The message says what is expected. */
final class ArrivalException extends Exception {
  private static final long serialVersionUID = 1L;

  ArrivalException(String message) {
    super(message);
  }

  ArrivalException(String message, Throwable cause) {
    super(message, cause);
  }
}
