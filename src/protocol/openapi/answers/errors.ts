// Schemas of the two error formats, as published in openapi.json.
import { z } from 'zod';
import { ERRORS, ERROR_TYPES } from '../../../shared/error-codes.js';

const names = <T extends string>(table: Record<T, unknown>) => Object.keys(table) as [T, ...T[]];

const code = z.enum(names(ERRORS));
const type = z.enum(Object.values(ERROR_TYPES));
const param = z.string().nullable();
/** The HTTP status from the upstream, if the upstream caused the error. */
const upstreamStatus = z.number().int();

export const chatError = z.strictObject({
  error: z.strictObject({
    message: z.string().min(1),
    type,
    param,
    code,
    details: z.strictObject({ upstream_status: upstreamStatus }).optional(),
  }),
});

export const messagesError = z.strictObject({
  type: z.literal('error'),
  error: z.strictObject({
    type,
    message: z.string().min(1),
    param,
    code,
    details: z.strictObject({ error_code: code, upstream_status: upstreamStatus.optional() }),
  }),
  request_id: z.string().regex(/^req_[0-9A-Za-z]{24}$/),
});
