// The operations of files and uploads in openapi.json.
import { z } from 'zod';
import { ALL_PURPOSES, PURPOSES } from '../files/fields.js';

const FILE = ['File', 'MessagesFile'] as const;
const contents = { type: 'string', format: 'binary' };
const seconds = { type: 'integer' };

const fileForm = {
  type: 'object',
  required: ['file'],
  properties: {
    file: contents,
    purpose: { type: 'string', enum: PURPOSES, description: 'Required in the OpenAI format.' },
    'expires_after[anchor]': { type: 'string', enum: ['created_at'] },
    'expires_after[seconds]': seconds,
    expires_in_seconds: { ...seconds, description: 'Anthropic format only.' },
  },
};

const paging = {
  limit: z.int().min(1).max(10_000).optional(),
  order: z.enum(['asc', 'desc']).optional(),
  purpose: z.enum(ALL_PURPOSES).optional(),
  after: z.string().optional(),
  page: z.string().optional(),
  after_id: z.string().optional(),
  before_id: z.string().optional(),
  'ids[]': z.array(z.string()).optional(),
};

/** Elements of type Operation; see document.ts. */
export const fileOperations = [
  {
    method: 'post',
    path: '/v1/files',
    id: 'uploadFile',
    summary: 'Upload a file (OpenAI or Anthropic format).',
    form: fileForm,
    answer: FILE,
    error: 'either',
  },
  {
    method: 'get',
    path: '/v1/files',
    id: 'listFiles',
    summary: 'List files (OpenAI or Anthropic format).',
    answer: ['FileList', 'MessagesFileList'],
    error: 'either',
    query: paging,
  },
  { method: 'get', path: '/v1/files/{id}', id: 'retrieveFile', summary: 'Get a file.', answer: FILE, error: 'either' },
  {
    method: 'delete',
    path: '/v1/files/{id}',
    id: 'deleteFile',
    summary: 'Delete a file.',
    answer: ['FileDeleted', 'MessagesFileDeleted'],
    error: 'either',
  },
  {
    method: 'get',
    path: '/v1/files/{id}/content',
    id: 'downloadFile',
    summary: "Download a file's contents.",
    answer: 'binary',
    error: 'either',
  },
  {
    method: 'post',
    path: '/v1/uploads',
    id: 'createUpload',
    summary: 'Start uploading a file in parts.',
    request: 'UploadRequest',
    answer: 'Upload',
    error: 'either',
  },
  {
    method: 'post',
    path: '/v1/uploads/{id}/parts',
    id: 'addUploadPart',
    summary: 'Upload a part of a file.',
    form: { type: 'object', required: ['data'], properties: { data: contents } },
    answer: 'UploadPart',
    error: 'either',
  },
  {
    method: 'post',
    path: '/v1/uploads/{id}/complete',
    id: 'completeUpload',
    summary: "Create a file from an upload's parts.",
    request: 'UploadCompleteRequest',
    answer: 'Upload',
    error: 'either',
  },
  {
    method: 'post',
    path: '/v1/uploads/{id}/cancel',
    id: 'cancelUpload',
    summary: 'Cancel an upload and erase its parts.',
    answer: 'Upload',
    error: 'either',
  },
] as const;
