/** The folder of this file, in the source as in the package: other files of ours are found from here. */
export const SOURCE = new URL('./', import.meta.url)

/** Of our files: from source, processes and threads need a loader. */
export const EXTENSION = import.meta.url.endsWith('.js') ? 'js' : 'ts'
