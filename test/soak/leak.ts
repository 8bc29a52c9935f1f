// Preloaded into a server: its main thread leaks MONOLITH_TEST_LEAK bytes per second, to verify that a soak test can
// fail.
import { isMainThread } from 'node:worker_threads';

const kept: Buffer[] = [];
const bytes = Number(process.env['MONOLITH_TEST_LEAK']);
if (isMainThread && bytes > 0) setInterval(() => kept.push(Buffer.alloc(bytes, 1)), 1_000).unref();
