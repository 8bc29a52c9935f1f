// The page store's file operations, as an interface, so that tests can make each operation fail.
import { open, readdir, unlink, type FileHandle } from 'node:fs/promises';

export interface PageFile {
  /** Fills `into` from `position`. Returns the number of bytes read, which is less only at the end of the file. */
  read(into: Uint8Array, position: number): Promise<number>;
  /** Writes all bytes at `position`. */
  write(bytes: Uint8Array, position: number): Promise<void>;
  /** Resolves when all data written so far is durable. */
  sync(): Promise<void>;
  size(): Promise<number>;
  truncate(size: number): Promise<void>;
  close(): Promise<void>;
}

/** Every function rejects with the file system's error. */
export interface PageFiles {
  /** Opens a file for reading and writing, and creates it if it does not exist. */
  open(path: string): Promise<PageFile>;
  /** The names in a directory. */
  list(folder: string): Promise<string[]>;
  remove(path: string): Promise<void>;
}

class NodeFile implements PageFile {
  constructor(private readonly handle: FileHandle) {}

  async read(into: Uint8Array, position: number): Promise<number> {
    let done = 0;
    while (done < into.length) {
      const { bytesRead } = await this.handle.read(into, done, into.length - done, position + done);
      if (bytesRead === 0) break;
      done += bytesRead;
    }
    return done;
  }

  async write(bytes: Uint8Array, position: number): Promise<void> {
    for (let done = 0; done < bytes.length; ) {
      const { bytesWritten } = await this.handle.write(bytes, done, bytes.length - done, position + done);
      done += bytesWritten;
    }
  }

  sync(): Promise<void> {
    return this.handle.datasync();
  }
  async size(): Promise<number> {
    return (await this.handle.stat()).size;
  }
  truncate(size: number): Promise<void> {
    return this.handle.truncate(size);
  }
  close(): Promise<void> {
    return this.handle.close();
  }
}

export const nodeFiles: PageFiles = {
  open: async (path) => {
    let handle: FileHandle;
    try {
      handle = await open(path, 'r+');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      handle = await open(path, 'wx+', 0o600);
    }
    return new NodeFile(handle);
  },
  list: (folder) => readdir(folder),
  remove: (path) => unlink(path),
};
