// Limits the memory for a thread's buffers. The resource limits of worker threads apply only to the JavaScript heap,
// not to the contents of ArrayBuffers, into which PDF.js decompresses data. PDF.js creates them only through the global
// constructors and DecompressionStream.
import { getHeapStatistics } from 'node:v8';
import { constants, inflateRawSync, inflateSync } from 'node:zlib';

/** Number of bytes allocated between two measurements, because each measurement takes a few microseconds. */
const MEASURED_EVERY = 1024 ** 2;

const NAMES = [
  'ArrayBuffer',
  'Uint8Array',
  'Uint8ClampedArray',
  'Int8Array',
  'Uint16Array',
  'Int16Array',
  'Uint32Array',
  'Int32Array',
  'Float32Array',
  'Float64Array',
] as const;

/** A view of an existing ArrayBuffer does not allocate memory. */
const NativeArrayBuffer = ArrayBuffer;

type Globals = Record<string, new (...args: unknown[]) => object>;

/**
 * Calls `exceed` before an allocation that would take the thread's buffers above `maxBytes` in total. Returns a
 * function that calls `exceed` if the total is already higher, for memory that is allocated without a constructor.
 */
export function limitBuffers(maxBytes: number, exceed: () => never): () => void {
  let unmeasured = 0;
  const before = (bytes: number): void => {
    unmeasured += bytes;
    if (unmeasured < MEASURED_EVERY) return;
    if (getHeapStatistics().external_memory + bytes > maxBytes) exceed();
    unmeasured = 0;
  };
  const globals = globalThis as unknown as Globals;
  for (const name of NAMES) {
    const Original = globals[name] as Globals[string] & { BYTES_PER_ELEMENT?: number };
    const { BYTES_PER_ELEMENT: elementBytes = 1 } = Original;
    const Limited = new Proxy(Original, {
      construct(target, args: unknown[], newTarget) {
        before(elementsOf(args[0]) * elementBytes);
        return Reflect.construct(target, args, newTarget) as object;
      },
    });
    globals[name] = Limited;
    // slice(), map() and filter() create their results with this constructor.
    Object.defineProperty(Original.prototype, 'constructor', { value: Limited, writable: true, configurable: true });
  }
  Object.assign(globalThis, { DecompressionStream: limitedDecompression(maxBytes, exceed) });
  return () => {
    if (getHeapStatistics().external_memory > maxBytes) exceed();
  };
}

/**
 * Returns a replacement for DecompressionStream, which would decompress outside the limit. Decompresses each chunk
 * separately, because PDF.js writes only one.
 */
function limitedDecompression(maxBytes: number, exceed: () => never): new (format: string) => TransformStream {
  return class extends TransformStream<Uint8Array, Uint8Array> {
    constructor(format: string) {
      const inflate = format === 'deflate' ? inflateSync : inflateRawSync;
      super({
        transform: (chunk, controller) => {
          // The decompressed pieces are copied into one buffer at the end.
          const maxOutputLength = Math.max(1, Math.floor((maxBytes - getHeapStatistics().external_memory) / 2));
          try {
            controller.enqueue(inflate(chunk, { maxOutputLength, finishFlush: constants.Z_SYNC_FLUSH }));
          } catch (error) {
            if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') exceed();
            throw error;
          }
        },
      });
    }
  };
}

/** Number of elements that a constructor allocates when it is called with this first argument. */
function elementsOf(given: unknown): number {
  if (typeof given === 'number') return Number.isFinite(given) ? Math.max(0, given) : 0;
  if (given === null || typeof given !== 'object' || given instanceof NativeArrayBuffer) return 0;
  const { length } = given as { length?: unknown };
  return typeof length === 'number' ? Math.max(0, length) : 0;
}
