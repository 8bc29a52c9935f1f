// Sizes of admission's shared memory: one table of records for all threads, and a ledger per HTTP worker of its own
// reservations in that table.

import { tableBytes } from './record-table.js';

const RECORDS = 131_072;

/** Size of the table in bytes. Untouched pages do not use memory. */
export const COUNTER_BYTES = tableBytes(RECORDS);

/** Size in bytes of the ledgers for `threads` threads. */
export const ledgerBytes = (threads: number): number => threads * RECORDS * Int32Array.BYTES_PER_ELEMENT;

/**
 * The ledger of thread `index`, which starts at 1: its unfinished requests, which are released if the thread terminates
 * unexpectedly.
 */
export const ledgerOf = (buffer: SharedArrayBuffer, index: number): Int32Array =>
  new Int32Array(buffer, (index - 1) * RECORDS * Int32Array.BYTES_PER_ELEMENT, RECORDS);
