// Query parameters of the operations on items of responses and conversations. No side effects.
import { z } from 'zod';

export const include = { 'include[]': z.array(z.string()).optional() };

export const itemPaging = {
  limit: z.int().min(1).max(100).optional(),
  order: z.enum(['asc', 'desc']).optional(),
  after: z.string().optional(),
  ...include,
};
