// Names of the Redis keys (described in scripts.ts). Pure.

import { recordKey } from '../record-key.js';

export class SharedKeys {
  readonly processes: string;

  constructor(private readonly prefix: string) {
    this.processes = `${prefix}:p`;
  }

  bucket(record: Int32Array): string {
    return `${this.prefix}:b:${hex(record)}`;
  }

  leases(record: Int32Array): string {
    return `${this.prefix}:c:${hex(record)}`;
  }

  /** `month`: 202611. */
  month(organizationId: string, month: number): string {
    return `${this.prefix}:m:${hex(recordKey('month', organizationId))}:${month}`;
  }
}

function hex(record: Int32Array): string {
  let text = '';
  for (const word of record) text += (word >>> 0).toString(16).padStart(8, '0');
  return text;
}
