// An index for looking up a request in the request log by its ID.

import type { Migration } from './migration.js';

export const requestsById: Migration = {
  what: 'request log by request ID',
  oldest: 1,
  statements: ['CREATE INDEX requests_by_id ON requests (request_id)'],
};
