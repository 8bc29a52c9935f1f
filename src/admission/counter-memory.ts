// Sizes of admission's shared memory: one table of records for all threads, and one ledger per HTTP worker that lists
// the worker's reservations in that table.

import { tableBytes } from './record-table.js';

const RECORDS = 131_072;

/** Size of the table in bytes. Untouched pages do not use memory. */
export const COUNTER_BYTES = tableBytes(RECORDS);

/** Size in bytes of the ledgers for `threads` threads. */
export const ledgerBytes = (threads: number): number => threads * RECORDS * Int32Array.BYTES_PER_ELEMENT;

/**
 * The ledger of thread `index` (starting at 1). It lists the thread's unfinished requests, which are released if the
 * thread terminates unexpectedly.
 */
export const ledgerOf = (buffer: SharedArrayBuffer, index: number): Int32Array =>
  new Int32Array(buffer, (index - 1) * RECORDS * Int32Array.BYTES_PER_ELEMENT, RECORDS);
