{# Data tests: each is a query of the bad rows. #}

{# More than one row where the grain says one. #}
{% test one_row_per(model, columns) %}
select {{ columns | join(', ') }}, count(*) as row_count
from {{ model }}
group by {{ columns | join(', ') }}
having count(*) > 1
{% endtest %}

{# Rows for which a rule does not hold; a rule that cannot be told (null) holds. #}
{% test holds(model, rule) %}
select *
from {{ model }}
where not ({{ rule }})
{% endtest %}
