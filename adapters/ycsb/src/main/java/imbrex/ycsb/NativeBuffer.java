package imbrex.ycsb;

import com.sun.jna.Native;
import com.sun.jna.Pointer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Native memory of one thread. It grows and never shrinks. */
final class NativeBuffer {
  private ByteBuffer bytes;
  private long address;

  NativeBuffer(int len) {
    allocate(len);
  }

  private void allocate(int len) {
    bytes = ByteBuffer.allocateDirect(len).order(ByteOrder.nativeOrder());
    address = Pointer.nativeValue(Native.getDirectBufferPointer(bytes));
  }

  /** Its address, until it grows. */
  long address() {
    return address;
  }

  int len() {
    return bytes.capacity();
  }

  /** Makes room for {@code len} bytes. Growing loses the content. */
  void reserve(int len) {
    if (len > bytes.capacity()) {
      allocate(Math.max(len, (int) Math.min(2L * bytes.capacity(), Integer.MAX_VALUE - 8)));
    }
  }

  /** Copies all of {@code content} to its beginning. */
  void set(byte[] content) {
    reserve(content.length);
    bytes.put(0, content);
  }

  /** A copy of the first {@code len} bytes. */
  byte[] get(int len) {
    byte[] content = new byte[len];
    bytes.get(0, content);
    return content;
  }

  long getLong(int at) {
    return bytes.getLong(at);
  }
}
