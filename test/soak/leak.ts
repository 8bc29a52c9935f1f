// Preloaded into a server that is to leak: so many bytes a second (MONOLITH_TEST_LEAK) are kept by its main thread, so that a soak is seen to fail.
import { isMainThread } from 'node:worker_threads';

const kept: Buffer[] = [];
const bytes = Number(process.env['MONOLITH_TEST_LEAK']);
if (isMainThread && bytes > 0) setInterval(() => kept.push(Buffer.alloc(bytes, 1)), 1_000).unref();
