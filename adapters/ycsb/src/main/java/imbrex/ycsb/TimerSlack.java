package imbrex.ycsb;

import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Platform;
import java.util.Map;

/**
 * How much later than asked Linux may wake a sleeping thread, to wake it together with others: 50 us
 * unless the thread asks for less (prctl(2), PR_SET_TIMERSLACK).
 */
final class TimerSlack {
  private static final int PR_SET_TIMERSLACK = 29;
  private static final int PR_GET_TIMERSLACK = 30;
  private static final boolean HAS_PRCTL = bind();

  private TimerSlack() {}

  private static native int prctl(int option, long arg2, long arg3, long arg4, long arg5);

  private static boolean bind() {
    try {
      if (!Platform.isLinux()) {
        return false;
      }
      NativeLibrary c = NativeLibrary.getInstance(Platform.C_LIBRARY_NAME, Map.of());
      Native.register(TimerSlack.class, c);
      return true;
    } catch (LinkageError e) {
      // JNA may be missing, because arrivals on another binding do not need it.
      return false;
    }
  }

  /** Makes this thread wake on time. False if the system does not support that. */
  static boolean least() {
    return HAS_PRCTL && prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0) == 0;
  }

  /** This thread's slack, or -1 if it is not known. */
  static int ns() {
    return HAS_PRCTL ? prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) : -1;
  }
}
