// WebSocket messages other than response events: client messages and error messages. No side effects.
import { apiError, errorHeaders, type ApiError } from '../../shared/errors.js';
import { parseJsonBody } from '../../http/json.js';

const STREAM_ID = /^[A-Za-z0-9_.-]{1,256}$/;

/** A `response.create` message: the body of a create request, and the fields that exist only for WebSockets. */
export interface CreateMessage {
  body: Record<string, unknown>;
  /** If false, only prepares the prefix cache. In that case, the input may be empty. */
  generate: boolean;
}

export type Fields = Readonly<Record<string, unknown>>;

/** Throws ApiError 400 invalid_json or invalid_body. */
export function parseMessage(bytes: Uint8Array, binary: boolean): Fields {
  if (binary) throw apiError('invalid_json', 'Messages must be text frames of JSON, not binary frames.');
  return parseJsonBody(bytes, 'message') as Fields;
}

/**
 * Returns the message's stream ID, which is copied to every event of the turn, or null if the message has none. Throws
 * ApiError if the stream ID is invalid.
 */
export function streamIdOf({ stream_id: id }: Fields): string | null {
  if (id === undefined || id === null) return null;
  if (typeof id !== 'string') throw apiError('invalid_type', 'stream_id must be a string.', 'stream_id');
  if (!STREAM_ID.test(id))
    throw apiError('invalid_value', 'stream_id must be 1 to 256 letters, digits, _, . or -.', 'stream_id');
  return id;
}

/**
 * Converts a message to a create request. Throws ApiError unknown_variant, steering_not_supported or unsupported_value,
 * or an error for a field of the wrong type.
 */
export function toCreate(message: Fields): CreateMessage {
  const { type, stream: _stream, stream_options: _options, stream_id: _id, generate, background, ...body } = message;
  if (type === undefined || type === null) throw apiError('missing_required_parameter', 'type is required.', 'type');
  if (typeof type !== 'string') throw apiError('invalid_type', 'type must be a string.', 'type');
  if (type === 'response.steer')
    throw apiError('steering_not_supported', 'A running response does not accept further input.', 'type');
  if (type !== 'response.create') throw apiError('unknown_variant', 'type must be "response.create".', 'type');
  if (background !== undefined && background !== null) {
    if (typeof background !== 'boolean') throw apiError('invalid_type', 'background must be a boolean.', 'background');
    if (background)
      throw apiError('unsupported_value', 'background: true is not supported over a WebSocket.', 'background');
  }
  if (generate !== undefined && generate !== null && typeof generate !== 'boolean')
    throw apiError('invalid_type', 'generate must be a boolean.', 'generate');
  return { body, generate: generate !== false };
}

/** Returns the error message for a turn that fails before its response is created. This is the turn's only message. */
export function errorMessage(error: ApiError, streamId: string | null): string {
  const { status, type, code, message, param } = error;
  const headers = status === 429 || status === 503 ? { headers: retryHeaders(error) } : {};
  return JSON.stringify({
    type: 'error',
    status,
    ...(streamId === null ? {} : { stream_id: streamId }),
    error: { type, code, message, param, ...headers },
  });
}

function retryHeaders(error: ApiError): Record<string, string> {
  return Object.fromEntries(
    errorHeaders(error, 'chat')
      .map(([name, value]) => [name.toLowerCase(), value] as const)
      .filter(([name]) => name.startsWith('retry-after')),
  );
}

/** Returns the event's JSON with the turn's stream ID added. */
export function withStreamId(data: string, streamId: string | null): string {
  // A stream ID needs no escaping; see STREAM_ID.
  return streamId === null ? data : `${data.slice(0, -1)},"stream_id":"${streamId}"}`;
}
