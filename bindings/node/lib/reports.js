'use strict'

// The numbers of backups, verifications and repairs, from their texts (src/maintenance.rs).

const text = given => given === '' ? undefined : given

exports.backupReportOf = function ([number, path, ...numbers]) {
  const [copiedFiles, copiedBytes, linkedFiles, linkedBytes] = numbers.map(Number)
  return { number: Number(number), path, copiedFiles, copiedBytes, linkedFiles, linkedBytes }
}

exports.backupsOf = function (texts) {
  const backups = []
  for (let at = 0; at < texts.length; at += 8) {
    const [number, path, tables, tableBytes, created, storeId, storePath, problem] = texts.slice(at, at + 8)
    backups.push({
      number: Number(number),
      path,
      tables: Number(tables),
      tableBytes: Number(tableBytes),
      created: created === '' ? undefined : new Date(Number(created)),
      storeId: storeId === '' ? undefined : BigInt(storeId),
      storePath: text(storePath),
      problem: text(problem)
    })
  }
  return backups
}

exports.pruneReportOf = function ([count, ...texts]) {
  const numbers = texts.map(Number)
  return { removed: numbers.slice(0, Number(count)), kept: numbers.slice(Number(count)) }
}

exports.verifyReportOf = function (texts) {
  const [formatVersion, files, valueFiles, logs, bytes, entries, rangeDeletes] = texts.slice(0, 7).map(Number)
  const problems = texts.slice(7)
  return { formatVersion, files, valueFiles, logs, bytes, entries, rangeDeletes, problems }
}

exports.repairReportOf = function ([isReadable, ...texts]) {
  const [tables, logs, pairs, entriesHeldMax] = texts.slice(0, 4).map(Number)
  const [originals, ...lost] = texts.slice(4)
  return { manifestReadable: isReadable === 'true', tables, logs, pairs, entriesHeldMax, originals, lost }
}
