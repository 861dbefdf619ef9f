-- name: raw_rows
select coalesce(sum(record_count), 0) from {dl}table_stats
where table_id in (select t.table_id from {named} where s.schema_name = 'raw')

-- name: table_ids
select t.table_id::varchar, s.schema_name || '.' || t.table_name
from {dl}table t
join {dl}schema s using (schema_id)

-- name: not_last_of_hour
with snapshots as (
    select snapshot_id as id, snapshot_time::timestamptz as made_at from {dl}snapshot
)
select id from (
    select *, max(id) over (partition by date_trunc('hour', made_at)) as last_of_hour from snapshots
)
where id <> last_of_hour and made_at < now() - to_seconds(?)
order by id

-- name: files_that_lost_rows
select s.schema_name, t.table_name, count(distinct d.data_file_id)
from {named}
join {dl}delete_file d on d.table_id = t.table_id and d.end_snapshot is null
group by all

-- name: storage
select
    coalesce(sum(file_count), 0)::bigint,
    coalesce(sum(file_size_bytes), 0)::bigint,
    coalesce(sum(delete_file_count), 0)::bigint,
    coalesce(sum(delete_file_size_bytes), 0)::bigint
from ducklake_table_info('lake')

-- name: data_files
select f.path, s.schema_name || '.' || t.table_name
from {dl}data_file f
join {dl}table t using (table_id)
join {dl}schema s using (schema_id)

-- name: table_uuid
select t.table_uuid::varchar from {named} where s.schema_name = ? and t.table_name = ?

-- name: bounds
select t.table_name, b.min_value, b.max_value
from {named}
join {dl}table_stats r on r.table_id = t.table_id and r.next_row_id > 0
join {dl}column c on c.table_id = t.table_id and c.end_snapshot is null
left join {dl}table_column_stats b on b.table_id = t.table_id and b.column_id = c.column_id
where s.schema_name = ? and c.column_name = ?

-- name: unused_tables
select s.schema_name || '.' || t.table_name
from {named}
join {dl}table_stats r on r.table_id = t.table_id
where r.next_row_id = 0

-- name: lacking
-- Only tables of fleetlake, which are written under a lock: a user may be filling another one.
select table_id
from {dl}schema s
join {dl}table t using (schema_id)
where schema_name in ('raw', 'meta', 'marts') and s.end_snapshot is null
    and t.end_snapshot is null
    and table_id not in (select table_id from {dl}table_stats)
    and table_id not in (select table_id from {dl}data_file)

-- name: add_column_statistics
insert into {dl}table_column_stats by name
select table_id, column_id, true as contains_null
from ({lacking})
join {dl}column c using (table_id)
where c.end_snapshot is null

-- name: add_table_statistics
insert into {dl}table_stats by name
select table_id, 0 as record_count, 0 as next_row_id, 0 as file_size_bytes from ({lacking})

-- name: wrong_statistics
-- `$` stands for the type of the columns.
select
    s.table_id, s.column_id, min(f.min_value::$)::varchar as least,
    max(f.max_value::$)::varchar as greatest
from {dl}table_column_stats s
join {dl}column c using (table_id, column_id)
left join {dl}file_column_stats f using (table_id, column_id)
where c.end_snapshot is null and s.extra_stats is null and c.column_type = ?
group by s.table_id, s.column_id, s.min_value, s.max_value
having least is distinct from s.min_value or greatest is distinct from s.max_value

-- name: newest_times
select t.table_name, c.column_name, max(f.max_value)
from {named}
join {dl}data_file d on d.table_id = t.table_id
join {dl}file_column_stats f using (data_file_id)
join {dl}column c
    on c.table_id = t.table_id and c.column_id = f.column_id and c.end_snapshot is null
    and c.column_type = 'timestamptz'
where d.end_snapshot is null and s.schema_name = 'raw'
group by all

-- name: newest_in_marts
select max(f.max_value)
from {named}
join {dl}data_file d on d.table_id = t.table_id
join {dl}file_column_stats f using (data_file_id)
join {dl}column c
    on c.table_id = t.table_id and c.column_id = f.column_id and c.end_snapshot is null
where d.end_snapshot is null and s.schema_name = 'marts'
    and c.column_name = $1 and c.column_type = 'timestamptz'

-- name: file_statistics
select c.column_name, s.min_value, s.max_value
from {dl}file_column_stats s
join {dl}column c
    on c.table_id = s.table_id and c.column_id = s.column_id and c.end_snapshot is null
    and c.parent_column is null
where s.data_file_id = ?

-- name: file_columns
select distinct c.column_name, c.column_id
from {dl}column c
join {dl}file_column_stats s on s.table_id = c.table_id and s.column_id = c.column_id
where s.data_file_id = ? and c.parent_column is null and c.end_snapshot is null
order by c.column_id

-- name: contradictions
select count(*), 'data files of no table'
from {dl}data_file where table_id not in (select table_id from {dl}table)
union all
select count(*), 'delete files of no data file'
from {dl}delete_file where data_file_id not in (select data_file_id from {dl}data_file)
union all
select count(*), 'tables of no schema'
from {dl}table where schema_id not in (select schema_id from {dl}schema)
union all
select count(*), 'files newer than the newest snapshot'
from {dl}data_file where begin_snapshot > (select max(snapshot_id) from {dl}snapshot)
union all
select count(*) - count(distinct (table_id, path)), 'files with the name of another one'
from {dl}data_file

-- name: files_of_all_snapshots
with tables as (
    -- A renamed table has several rows.
    select
        table_id,
        max_by(table_name, begin_snapshot) as table_name,
        max_by(schema_id, begin_snapshot) as schema_id,
        max_by(path, begin_snapshot) as path,
        max_by(path_is_relative::int, begin_snapshot) as is_relative
    from {dl}table
    group by table_id
),
files as (
    select
        table_id, data_file_id, false as is_delete, record_count as rows, path, path_is_relative,
        file_size_bytes, footer_size, begin_snapshot, end_snapshot, encryption_key
    from {dl}data_file
    union all
    select
        table_id, data_file_id, true, delete_count, path, path_is_relative,
        file_size_bytes, footer_size, begin_snapshot, end_snapshot, encryption_key
    from {dl}delete_file
)
select
    s.path, t.path, f.path, s.path_is_relative::int + t.is_relative + f.path_is_relative::int,
    s.schema_name, t.table_name, f.table_id, f.data_file_id, f.is_delete, f.rows,
    f.file_size_bytes, f.footer_size, f.begin_snapshot, f.end_snapshot,
    f.encryption_key is not null
from files f
join tables t using (table_id)
join {dl}schema s using (schema_id)

-- name: files_to_remove
select path from {dl}files_scheduled_for_deletion

-- name: files_in
-- For SQLite itself.
select distinct
    s.path, t.path, f.path, f.file_size_bytes,
    s.path_is_relative and t.path_is_relative and f.path_is_relative
from (
    select table_id, path, path_is_relative, file_size_bytes from ducklake_data_file
    union all
    select table_id, path, path_is_relative, file_size_bytes from ducklake_delete_file
) f
join ducklake_table t using (table_id)
join ducklake_schema s using (schema_id)
